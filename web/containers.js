// The containers of an agent, as rows of the table: what each does, what is left of its deadline, and the bars of its tasks.

import { model, now } from "./model.js";
import { set, text } from "./table.js";
import { bytes, given, make, percent, rate, span } from "./words.js";

const THIN = 0.2; // of its deadline: under a fifth, a float is thin

const order = { running: 0, held: 1, frozen: 2, swapped: 3, idle: 4 };
const float = (line) => (line.dueAt != null ? line.dueAt - now() : line.float_us == null ? null : line.float_us / 1000);

export const containers = {
  noun: "container",
  caption: "Containers: what each does, what is left of its deadline, and when its tasks ran",
  label: "Containers and their timeline. Plus and minus zoom, left and right move in time.",
  none: "No container has used a GPU yet. `leeway run --deadline 2s IMAGE` gives one a deadline.",
  columns: [
    ["name", "Container", (line) => line.name],
    ["gpu", "GPU", (line) => line.gpu ?? Infinity, true],
    ["core", "Core", (line) => -line.gpu_core_ratio, true],
    ["memory", "Memory", (line) => -line.gpu_memory_bytes, true],
    ["state", "State", (line) => order[line.state]],
    ["deadline", "Deadline", (line) => line.deadline_us ?? Infinity, true],
    ["float", "Float", (line) => float(line) ?? Infinity],
    ["hits", "Hits", (line) => (line.hits + line.misses ? line.hits / (line.hits + line.misses) : 2), true],
  ],
  lines: () => model.containers,
  words: (line) => [line.name, line.state],
  bars: (line) => (line && model.lanes.get(line.name)) ?? [],

  /** What is inside of a row's cells. */
  parts(row) {
    row.link = make("a", {});
    row.state = make("span", {});
    row.why = make("span", { class: "why" });
    row.bar = make("i", {});
    row.value = make("span", { class: "value" });
    row.float = make("div", { class: "float" }, make("span", { class: "track" }, row.bar), row.value);
    return { name: [row.link], state: [row.state, row.why], float: [row.float] };
  },

  fill(row, line) {
    const busy = line.state !== "idle";
    set(row, "name", line.name, () => {
      row.link.textContent = line.name;
      row.link.href = `#/container/${encodeURIComponent(line.id)}`;
      row.link.title = [line.name, line.image, line.pod && `${line.namespace}/${line.pod}`].filter(Boolean).join("\n");
    });
    text(row, "gpu", line.gpu == null ? "–" : String(line.gpu));
    text(row, "core", busy ? percent(line.gpu_core_ratio) : "–");
    text(row, "memory", busy ? bytes(line.gpu_memory_bytes) : "–");
    set(row, "state", line.state, () => {
      row.state.textContent = line.state;
      row.state.className = `state ${line.state}`;
    });
    set(row, "why", line.reason ?? "", () => {
      row.why.textContent = line.reason ?? "";
      row.cells.state.title = line.reason ? `${line.state}, because ${line.reason}` : "";
    });
    text(row, "deadline", line.deadline_us == null ? "–" : given(line.deadline_us / 1000));
    const all = line.hits + line.misses;
    text(row, "hits", all ? `${line.hits}/${all} · ${rate(line.hits, all)}` : "–");
  },

  /** What changes by itself: the float. */
  tick(row, line) {
    const left = float(line);
    const runs = line.dueAt != null;
    const share = left == null || !line.deadline_us ? 0 : left / (line.deadline_us / 1000);
    const missed = left != null && left < 0;
    set(row, "value", left == null ? "–" : span(left), (words) => (row.value.textContent = words));
    set(row, "share", runs ? Math.round((missed ? 1 : Math.max(0, Math.min(1, share))) * 200) : -1, (at) => {
      row.bar.style.transform = `scaleX(${Math.max(0, at) / 200})`;
    });
    const kind = runs ? (share < THIN && !missed ? "float thin" : "float") : "float over";
    set(row, "kind", kind, () => (row.float.className = kind));
    set(row, "missed", missed && runs, (is) => row.element.classList.toggle("missed", is));
    set(row, "idle", line.state === "idle", (is) => row.element.classList.toggle("idle", is));
  },
};
