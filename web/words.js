// Figures and times as people read them.

const two = (number) => String(number).padStart(2, "0");

/** A length in milliseconds: `740µs`, `250ms`, `1.5s`, `2m05s`. What is late is rounded so that it never looks like being in time. */
export function span(ms) {
  if (ms == null) return "–";
  if (ms === 0) return "0s";
  const sign = ms < 0 ? "−" : "";
  const size = Math.abs(ms);
  if (size < 1) return `${sign}${Math.round(size * 1000)}µs`;
  if (size < 1000) return `${sign}${Math.round(size)}ms`;
  if (size < 60000) return `${sign}${(Math.floor(size / 100) / 10).toFixed(1)}s`;
  const seconds = Math.floor(size / 1000);
  if (seconds < 3600) return `${sign}${Math.floor(seconds / 60)}m${two(seconds % 60)}s`;
  return `${sign}${Math.floor(seconds / 3600)}h${two(Math.floor(seconds / 60) % 60)}m`;
}

/** A length that was set by a person, as they may have written it: `2s`, `1m30s`. */
export function given(ms) {
  return span(ms).replace(/\.0s$/, "s").replace(/m00s$/, "m").replace(/h00m$/, "h");
}

export function bytes(count) {
  const mib = count / 1048576;
  return mib >= 1000 ? `${(mib / 1024).toFixed(1)} GiB` : `${Math.round(mib)} MiB`;
}

export const percent = (share) => `${Math.round(share * 100)} %`;

/** A rate that is not whole is never shown as whole. */
export function rate(hits, all) {
  if (!all) return "–";
  return hits === all ? "100 %" : `${Math.min(99.9, Math.floor((hits / all) * 1000) / 10)} %`;
}

/** The time of day, to the second or the millisecond. */
export function clock(ms, exact) {
  const at = new Date(ms);
  const text = `${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}`;
  return exact ? `${text}.${String(at.getMilliseconds()).padStart(3, "0")}` : text;
}

/** An element with a class, words and children; never markup from words. */
export function make(tag, about = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(about)) {
    if (name === "class") element.className = value;
    else if (name in element && name !== "list") element[name] = value;
    else element.setAttribute(name, value);
  }
  element.append(...children.filter((child) => child != null));
  return element;
}
