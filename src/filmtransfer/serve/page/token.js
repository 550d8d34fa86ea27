// The access token: read from the link's fragment, which the browser never sends anywhere,
// taken out of the address bar at once, and kept for this tab only.

const KEY = "filmtransfer.token";

export function takeFromAddress() {
  const found = new URLSearchParams(location.hash.slice(1)).get("token");
  if (!found) return;
  keepToken(found);
  history.replaceState(null, "", location.pathname + location.search);
}

export const token = () => sessionStorage.getItem(KEY);
export const keepToken = (text) => sessionStorage.setItem(KEY, text.trim());
export const forgetToken = () => sessionStorage.removeItem(KEY);
