// One container: why it is, or is not, running; how its deadlines went; its tasks and its holds, each with the reason.

import { ask, json, model, now } from "./model.js";
import * as lanes from "./lanes.js";
import { bytes, clock, given, make, percent, rate, span } from "./words.js";

const LISTED = 100;
const place = document.getElementById("one");
let open = null; // the id of what is shown
let parts = {};
let asked = 0;

/** Opens a container's page. */
export async function show(id) {
  if (open === id) return;
  open = id;
  place.replaceChildren();
  parts = {
    head: make("div", { class: "head" }),
    says: make("ul", { class: "says" }),
    facts: make("dl", { class: "facts" }),
    lane: make("canvas", { "aria-hidden": "true" }),
    history: make("canvas", { role: "img", "aria-label": "Deadlines met and missed over time" }),
    tasks: make("tbody", {}),
    holds: make("tbody", {}),
  };
  const section = (words, ...inside) => make("section", {}, make("h2", {}, words), ...inside);
  const table = (words, body) => {
    const heads = words.map((word) => make("th", { scope: "col" }, word));
    return make("div", { class: "scroll", tabIndex: 0 }, make("table", {}, make("thead", {}, make("tr", {}, ...heads)), body));
  };
  place.append(
    parts.head,
    section("Timeline", parts.lane),
    make("div", { class: "columns" }, section("Why", parts.says), section("What", parts.facts)),
    section("Deadlines met and missed", parts.history),
    section("Holds", table(["Since", "For", "Because"], parts.holds)),
    section("Tasks", table(["Start", "Took", "Deadline", "Float", "Result", "Held", "Memory", "Process"], parts.tasks)),
  );
  parts.history.style.height = "56px";
  await again();
}

export function close() {
  open = null;
}

/** Draws everything anew from what is known, and asks for the rest. */
export async function again() {
  if (!open) return;
  const line = model.containers.get(open);
  head(line);
  tables(line);
  draw();
  const mine = (asked += 1);
  const id = open;
  const who = encodeURIComponent(id);
  try {
    const since = now() - 3600000;
    const [why, lines] = await Promise.all([
      json(`/v1/containers/${who}/explain`),
      json(`/v1/history?since_us=${Math.floor(since * 1000)}&container=${who}`),
    ]);
    if (mine !== asked || open !== id) return;
    parts.says.replaceChildren(...why.sentences.map((words) => make("li", {}, words)));
    lanes.history(parts.history, lines, since, now());
  } catch (error) {
    if (mine === asked && open === id) parts.says.replaceChildren(make("li", { class: "quiet" }, String(error.message ?? error)));
  }
}

function head(line) {
  const name = line?.name ?? decodeURIComponent(open);
  document.title = `${name} · Leeway`;
  const back = make("a", { href: "#/", class: "quiet" }, "← all containers");
  const state = line ? make("span", { class: `state ${line.state}` }, line.state) : make("span", { class: "quiet" }, "gone");
  const release = make("button", { type: "button", onclick: () => letGo(name) }, "Release");
  const may = model.mayChange && line && ["held", "frozen"].includes(line.state);
  parts.head.replaceChildren(back, make("h1", {}, name), state, line?.reason ? make("span", { class: "why" }, `because ${line.reason}`) : "", may ? release : "");
  if (!line) return;
  const all = line.hits + line.misses;
  const facts = [
    ["deadline", line.deadline_us == null ? "none" : given(line.deadline_us / 1000)],
    ["a task is", { process: "a process", memory: "a stretch with GPU memory", burst: "a burst of work" }[line.mode] ?? line.mode],
    ["hits", all ? `${line.hits} of ${all}, ${rate(line.hits, all)}` : "no deadline was due yet"],
    ["GPU", line.gpu == null ? "none yet" : String(line.gpu)],
    ["core", percent(line.gpu_core_ratio)],
    ["memory", bytes(line.gpu_memory_bytes)],
    ["held", line.managed ? "may be held" : "is never held: it has no label"],
    line.image && ["image", line.image],
    line.pod && ["pod", `${line.namespace}/${line.pod}`],
    ["id", line.id],
  ];
  parts.facts.replaceChildren(...facts.filter(Boolean).flatMap(([key, value]) => [make("dt", {}, key), make("dd", {}, value)]));
}

async function letGo(name) {
  if (!window.confirm(`Release ${name}? It runs from now on, whatever the policy says, until its task is over.`)) return;
  const body = JSON.stringify({ container: name });
  await ask("/v1/release", { method: "POST", body, headers: { "Content-Type": "application/json" } });
}

function tables(line) {
  const bars = (line && model.lanes.get(line.name)) ?? [];
  const latest = bars.slice(-LISTED).reverse();
  const row = (...cells) => make("tr", {}, ...cells.map((cell) => (cell instanceof Node ? cell : make("td", {}, cell))));
  parts.tasks.replaceChildren(
    ...latest.map((bar) => {
      const end = bar.end ?? now();
      const left = bar.due == null ? null : bar.due - end;
      const words = bar.end == null ? (left != null && left < 0 ? "running late" : "running") : left == null ? "done" : left < 0 ? "missed" : "in time";
      const result = make("td", { class: left != null && left < 0 ? "late" : bar.end != null && left != null ? "hit" : "" }, words);
      const deadline = bar.due == null ? "–" : given(bar.task.deadline_us / 1000);
      return row(clock(bar.start, true), span(end - bar.start), deadline, span(left), result, span(bar.task.held_us / 1000), bytes(bar.task.gpu_memory_bytes), String(bar.task.pid));
    }),
  );
  const holds = latest.flatMap((bar) => bar.holds.map((hold) => ({ ...hold, end: bar.end })));
  holds.sort((a, b) => b.from - a.from);
  const none = row(make("td", { class: "quiet", colSpan: 3 }, "None in the time shown."));
  parts.holds.replaceChildren(
    ...(holds.length
      ? holds.slice(0, LISTED).map((hold) => row(clock(hold.from, true), span((hold.until ?? hold.end ?? now()) - hold.from), make("td", { class: "reason" }, hold.reason)))
      : [none]),
  );
}

/** The lane, large. */
export function draw() {
  if (!open) return;
  const line = model.containers.get(open);
  const width = parts.lane.parentElement.clientWidth;
  const pen = lanes.sized(parts.lane, width, 76);
  lanes.axis(pen, 0, width, 76, 24);
  lanes.lane(pen, (line && model.lanes.get(line.name)) ?? [], 0, width, 36, 28);
}

/** What is at a place of the screen, as in the table. */
export function pointed(x, y) {
  if (!open) return null;
  const box = parts.lane.getBoundingClientRect();
  if (x < box.left || x > box.right || y < box.top || y > box.bottom) return null;
  const line = model.containers.get(open);
  const share = (x - box.left) / box.width;
  return { bars: (line && model.lanes.get(line.name)) ?? [], moment: lanes.from() + lanes.sight.length * share, share, width: box.width };
}

export const isOpen = () => open != null;
