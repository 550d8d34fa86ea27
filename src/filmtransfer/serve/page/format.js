// Numbers, sizes, durations and dates as text.

export const percent = (share) => `${Math.round(100 * share)}%`;
export const inWords = (percentage) => percentage.replace("%", " percent");
export const count = (n, one, many = `${one}s`) => `${n.toLocaleString("en")} ${n === 1 ? one : many}`;

export function size(bytes) {
  if (bytes < 1000) return count(bytes, "byte");
  const units = ["KB", "MB", "GB", "TB"];
  let value = bytes / 1000;
  let unit = 0;
  while (value >= 999.5 && unit < units.length - 1) {
    value /= 1000;
    unit += 1;
  }
  return `${value < 10 ? value.toFixed(1) : Math.round(value).toLocaleString("en")} ${units[unit]}`;
}

export function duration(seconds) {
  const s = Math.max(1, Math.round(seconds));
  if (s < 90) return count(s, "second");
  return count(Math.round(s / 60), "minute");
}

const clock = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit" });
const day = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", year: "numeric" });

export function dateTime(text) {
  const date = new Date(text);
  const today = new Date().toDateString() === date.toDateString();
  return today ? `today at ${clock.format(date)}` : `${day.format(date)} at ${clock.format(date)}`;
}
