// The timeline: bars on a canvas, one lane for each row that is on the screen, and what is under the pointer.

import { now } from "./model.js";
import { clock, make, span } from "./words.js";

/** What is shown: so much time, up to a moment, or up to now. */
export const sight = { length: 60000, end: null };
export const until = () => sight.end ?? now();
export const from = () => until() - sight.length;

const LENGTH_MIN = 1000;
const MARK_FROM = 8;
const LENGTH_MAX = 7 * 86400000;

/** Shows more or less time; the moment at `share` of the width stays where it is. */
export function zoom(factor, share = 1) {
  const fixed = from() + sight.length * share;
  sight.length = Math.min(LENGTH_MAX, Math.max(LENGTH_MIN, sight.length * factor));
  if (sight.end != null || share < 0.98) move(fixed + sight.length * (1 - share));
}

/** Shows another time. What would be in the future is now. */
export function move(end) {
  sight.end = end >= now() - sight.length / 500 ? null : end;
}

let colours = {};

/** The colours as the style sheet has them now. */
export function readColours() {
  const style = getComputedStyle(document.documentElement);
  for (const name of ["ground", "line", "text", "quiet", "strong", "runs", "held", "good", "thin", "missed"]) {
    colours[name] = style.getPropertyValue(`--${name}`).trim();
  }
}

/** A canvas as sharp as the screen, of that size. */
export function sized(canvas, width, height) {
  const scale = window.devicePixelRatio || 1;
  const [w, h] = [Math.max(1, Math.round(width * scale)), Math.max(1, Math.round(height * scale))];
  if (canvas.width !== w || canvas.height !== h) {
    canvas.width = w;
    canvas.height = h;
    canvas.style.width = `${width}px`;
    canvas.style.height = `${height}px`;
  }
  const pen = canvas.getContext("2d");
  pen.setTransform(scale, 0, 0, scale, 0, 0);
  pen.clearRect(0, 0, width, height);
  return pen;
}

const STEPS = [0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 1800, 3600, 10800, 21600, 43200, 86400, 172800].map((s) => s * 1000);

/** Lines where round times are; words in the upper `words` pixels. */
export function axis(pen, left, width, height, words) {
  const step = STEPS.find((step) => (step / sight.length) * width >= 76) ?? STEPS[STEPS.length - 1];
  const zone = new Date(until()).getTimezoneOffset() * 60000;
  pen.strokeStyle = colours.line;
  pen.fillStyle = colours.quiet;
  pen.font = "11px system-ui, 'DejaVu Sans', sans-serif";
  pen.lineWidth = 1;
  pen.beginPath();
  for (let at = Math.ceil((from() - zone) / step) * step + zone; at < until(); at += step) {
    const x = Math.round(left + ((at - from()) / sight.length) * width) + 0.5;
    pen.moveTo(x, words);
    pen.lineTo(x, height);
    if (words > 0 && x > left + 2 && x < left + width - 58) pen.fillText(clock(at, step < 1000).replace(/00$/, step < 1000 ? "" : "00"), x + 3, words - 10);
  }
  pen.stroke();
}

/** One lane: what ran, what was held, what was late, and where deadlines are. */
export function lane(pen, bars, left, width, top, height) {
  const [first, last, length] = [from(), until(), sight.length];
  const place = (at) => left + ((Math.min(Math.max(at, first), last) - first) / length) * width;
  let filled = [-1, ""];
  const fill = (start, end, colour, part = 1) => {
    const [x, w] = [place(start), Math.max(place(end) - place(start), 1)];
    // Of thousands of bars in one pixel, one is enough.
    if (x + w <= filled[0] + 0.5 && colour === filled[1]) return;
    filled = [x + w, colour];
    pen.fillStyle = colour;
    pen.fillRect(x, top + height * (1 - part), w, height * part);
  };
  for (const bar of bars) {
    const end = bar.end ?? last;
    if (end < first || bar.start > last) continue;
    const late = bar.due != null && end > bar.due ? Math.max(bar.start, bar.due) : end;
    if (late > bar.start) fill(bar.start, late, colours.runs);
    if (end > late) fill(late, end, colours.missed);
    for (const hold of bar.holds) {
      const over = Math.min(hold.until ?? end, end);
      const [x, w] = [place(hold.from), Math.max(place(over) - place(hold.from), 1)];
      pen.clearRect(x, top, w, height);
      filled = [-1, ""];
      fill(hold.from, Math.min(over, Math.max(late, hold.from)), colours.held, 0.45);
      if (over > late) fill(Math.max(late, hold.from), over, colours.missed, 0.45);
    }
  }
  let marked = -9;
  for (const bar of bars) {
    if (bar.due == null || bar.due < first || bar.due > last) continue;
    const missed = (bar.end ?? now()) > bar.due;
    // Where deadlines are a few pixels long, their marks would hide what they are about; misses never are.
    if (!missed && ((bar.due - bar.start) / length) * width < MARK_FROM) continue;
    const x = Math.round(place(bar.due));
    if (x - marked < 2) continue;
    marked = x;
    pen.fillStyle = missed ? colours.missed : colours.strong;
    pen.fillRect(x - 0.75, top - 3, 1.5, height + 6);
  }
}

/** The task at a moment, or the nearest within a few pixels. */
export function at(bars, moment, width) {
  const near = (sight.length / Math.max(width, 1)) * 4;
  let best = null;
  for (const bar of bars) {
    const end = bar.end ?? now();
    const off = moment < bar.start ? bar.start - moment : moment > end ? moment - end : 0;
    if (off <= near && (!best || off < best.off || (off === best.off && bar.start > best.bar.start))) best = { bar, off };
  }
  return best?.bar ?? null;
}

/** What there is to say of a task at a moment. */
export function about(bar, moment) {
  const end = bar.end ?? now();
  const float = bar.due == null ? null : bar.due - end;
  const result = bar.end == null ? (float < 0 && float != null ? "running late" : "running") : float == null ? "done" : float < 0 ? "missed" : "in time";
  const line = (name, value) => [make("dt", {}, name), make("dd", {}, value)];
  const list = make("dl", {});
  list.append(
    ...line("start", `${clock(bar.start, true)}${bar.task.approximate ? " (seen)" : ""}`),
    ...line("end", bar.end == null ? "–" : clock(bar.end, true)),
    ...line("took", span(end - bar.start)),
    ...(bar.due == null ? [] : [...line("deadline", span(bar.task.deadline_us / 1000)), ...line("float", span(float))]),
    ...line("process", `${bar.task.pid} on GPU ${bar.task.gpu}`),
  );
  const near = sight.length / 300;
  const hold = bar.holds.find((hold) => hold.from - near <= moment && moment <= (hold.until ?? end) + near);
  const words = hold && `held for ${span((hold.until ?? end) - hold.from)}: ${hold.reason}`;
  return [make("b", { class: float < 0 ? "late" : "" }, `${bar.name}: ${result}`), list, words ? make("div", { class: "hold" }, words) : null];
}

/** Hits above, misses below: how each stretch of time went. */
export function history(canvas, lines, start, end) {
  const [width, height] = [canvas.clientWidth, canvas.clientHeight];
  const pen = sized(canvas, width, height);
  const most = Math.max(1, ...lines.map((line) => line.hits + line.misses));
  const part = Math.max(2, width / 120);
  pen.fillStyle = colours.line;
  pen.fillRect(0, height - 1, width, 1);
  for (const line of lines) {
    const x = ((Date.parse(line.time) - start) / (end - start)) * width;
    const hits = ((height - 4) * line.hits) / most;
    const misses = Math.max(line.misses ? 2 : 0, ((height - 4) * line.misses) / most);
    pen.fillStyle = colours.good;
    pen.fillRect(x, height - 1 - hits, part - 1, hits);
    pen.fillStyle = colours.missed;
    pen.fillRect(x, height - 1 - hits - misses, part - 1, misses);
  }
}
