// The GPUs of a master's node list, as rows of the table: the best for a new container first.

import { model, now } from "./model.js";
import { set, text } from "./table.js";
import { bytes, make, span } from "./words.js";

export const nodes = {
  noun: "GPU",
  caption: "GPUs of all nodes, the best for a new container first",
  label: "GPUs of all nodes, in rank order",
  none: "No node reports yet. `leeway cluster token` shows what lets an agent join.",
  columns: [
    ["rank", "Rank", (line) => line.rank, true],
    ["name", "Node", (line) => line.name],
    ["index", "GPU", (line) => line.gpu, true],
    ["state", "State", (line) => line.state],
    ["free", "Free memory", (line) => -line.gpu_memory_free_bytes],
    ["left", "Float", (line) => line.float_us ?? Infinity, true],
    ["age", "Reported", (line) => -line.at, true],
    ["services", "Services", (line) => line.services.join()],
  ],
  lines: () => model.nodes,
  words: (line) => [line.name, line.state, ...line.services],

  /** What is inside of a row's cells. */
  parts(row) {
    row.state = make("span", {});
    row.why = make("span", { class: "why" });
    row.bar = make("i", {});
    row.value = make("span", { class: "value" });
    const free = make("div", { class: "float free" }, make("span", { class: "track" }, row.bar), row.value);
    return { state: [row.state, row.why], free: [free] };
  },

  fill(row, line) {
    text(row, "rank", String(line.rank + 1));
    text(row, "name", line.name);
    text(row, "index", String(line.gpu));
    set(row, "state", line.state, () => {
      row.state.textContent = line.state;
      row.state.className = `state ${line.state}`;
      row.element.classList.toggle("missed", ["missed", "silent"].includes(line.state));
      row.element.classList.toggle("idle", !line.provisionable);
    });
    set(row, "why", line.reason ?? "", (why) => {
      row.why.textContent = why;
      row.cells.state.title = why && `${line.state}: ${why}`;
    });
    const [free, all] = [line.gpu_memory_free_bytes, line.gpu_memory_total_bytes];
    set(row, "value", `${bytes(free)} of ${bytes(all)}`, (words) => (row.value.textContent = words));
    set(row, "share", Math.round((free / Math.max(1, all)) * 200), (at) => (row.bar.style.transform = `scaleX(${at / 200})`));
    text(row, "left", line.float_us == null ? "unlimited" : span(line.float_us / 1000));
    text(row, "services", line.services.join(", "));
    row.cells.services.title = line.services.join("\n");
  },

  /** What changes by itself: how old the report is. */
  tick(row, line) {
    text(row, "age", `${span(Math.max(1, now() - line.at))} ago`);
  },
};
