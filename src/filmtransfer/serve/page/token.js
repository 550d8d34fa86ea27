// The access token: read from the fragment of the link, which browsers do not send, removed from the
// address bar at once, and stored for this tab only.

const KEY = "filmtransfer.token";

export function readTokenFromAddress() {
  const fromLink = new URLSearchParams(location.hash.slice(1)).get("token");
  if (!fromLink) return;
  keepToken(fromLink);
  history.replaceState(null, "", location.pathname + location.search);
}

export const token = () => sessionStorage.getItem(KEY);
export const keepToken = (text) => sessionStorage.setItem(KEY, text.trim());
export const forgetToken = () => sessionStorage.removeItem(KEY);
