// The table of containers: one row each, changed where something has changed, and the lanes beside it.
//
// Of many containers, only the rows that are on the screen are in the page: a browser takes half a second to lay out five hundred.

import { model, now } from "./model.js";
import * as lanes from "./lanes.js";
import { bytes, given, make, percent, rate, span } from "./words.js";

const $ = (id) => document.getElementById(id);
const THIN = 0.2; // of its deadline: under a fifth, a float is thin
const PHONE = window.matchMedia("(max-width: 720px)");

const order = { running: 0, held: 1, frozen: 2, swapped: 3, idle: 4 };
const float = (line) => (line.dueAt != null ? line.dueAt - now() : line.float_us == null ? null : line.float_us / 1000);
const COLUMNS = [
  ["name", "Container", (line) => line.name],
  ["gpu", "GPU", (line) => line.gpu ?? Infinity, true],
  ["core", "Core", (line) => -line.gpu_core_ratio, true],
  ["memory", "Memory", (line) => -line.gpu_memory_bytes, true],
  ["state", "State", (line) => order[line.state]],
  ["deadline", "Deadline", (line) => line.deadline_us ?? Infinity, true],
  ["float", "Float", (line) => float(line) ?? Infinity],
  ["hits", "Hits", (line) => (line.hits + line.misses ? line.hits / (line.hits + line.misses) : 2), true],
];

const ALL_MAX = 100; // so many rows are in the page whether they are on the screen or not
const BEYOND = 8; // rows that are ready above and below the screen
const pads = [make("tr", { ariaHidden: "true" }), make("tr", { ariaHidden: "true" })];
let placed = { from: 0, to: 0, ids: null };

const view = { sort: "name", reversed: false, filter: "" };
const rows = new Map(); // by id
let shown = []; // ids in order

/** Makes the headings, and hears of the filter. */
export function begin(changed) {
  for (const [key, words, , number] of COLUMNS) {
    const button = make("button", { type: "button", onclick: () => sortBy(key, changed) }, words);
    $("headings").append(make("th", { class: `c-${key}${number ? " number" : ""}`, scope: "col" }, button));
  }
  $("headings").append(make("th", { class: "c-lane", scope: "col" }, make("span", { class: "hidden" }, "Timeline")));
  $("filter").addEventListener("input", (event) => {
    view.filter = event.target.value.toLowerCase();
    arrange();
    changed();
  });
  showSort();
}

function sortBy(key, changed) {
  view.reversed = view.sort === key && !view.reversed;
  view.sort = key;
  showSort();
  arrange();
  changed();
}

function showSort() {
  [...$("headings").children].forEach((heading, index) => {
    if (COLUMNS[index]?.[0] === view.sort) heading.setAttribute("aria-sort", view.reversed ? "descending" : "ascending");
    else heading.removeAttribute("aria-sort");
  });
}

/** Which rows are there, and in which order. */
export function arrange() {
  const by = COLUMNS.find(([key]) => key === view.sort)[2];
  const wanted = [...model.containers.values()].filter(
    (line) => !view.filter || line.name.toLowerCase().includes(view.filter) || line.state.includes(view.filter),
  );
  const less = (a, b) => (a < b ? -1 : a > b ? 1 : 0);
  wanted.sort((a, b) => less(by(a), by(b)) || less(a.name, b.name));
  if (view.reversed) wanted.reverse();
  for (const [id, row] of rows) {
    if (!model.containers.has(id)) {
      row.element.remove();
      rows.delete(id);
    }
  }
  const ids = wanted.map((line) => line.id);
  if (ids.length !== shown.length || ids.some((id, index) => id !== shown[index])) shown = ids;
  place();
  const all = model.containers.size;
  $("count").textContent = wanted.length === all ? `${all} container${all === 1 ? "" : "s"}` : `${wanted.length} of ${all}`;
  $("empty").hidden = wanted.length > 0;
  $("empty").textContent = all ? "No container has these letters in its name or state." : "No container has used a GPU yet. `leeway run --deadline 2s IMAGE` gives one a deadline.";
}

/** Puts the rows into the page that must be there. */
export function place() {
  const { first, last, height } = visible();
  const many = shown.length > ALL_MAX;
  const from = many ? Math.max(0, first - BEYOND) : 0;
  const to = many ? Math.min(shown.length, last + BEYOND) : shown.length;
  if (placed.ids === shown && placed.from === from && placed.to === to) return;
  placed = { from, to, ids: shown };
  pads[0].style.height = `${from * height}px`;
  pads[1].style.height = `${(shown.length - to) * height}px`;
  const elements = shown.slice(from, to).map((id, index) => {
    const row = rowOf(model.containers.get(id));
    row.element.ariaRowIndex = String(from + index + 2);
    set(row, "even", (from + index) % 2 === 1, (even) => row.element.classList.toggle("even", even));
    return row.element;
  });
  const whole = from === 0 && to === shown.length;
  $("rows").replaceChildren(...(whole ? elements : [pads[0], ...elements, pads[1]]));
  $("rows").parentElement.ariaRowCount = String(shown.length + 1);
}

function rowOf(line) {
  if (!rows.has(line.id)) rows.set(line.id, newRow(line.id));
  const row = rows.get(line.id);
  fill(row, line);
  return row;
}

function newRow(id) {
  const row = { id, told: {}, link: make("a", {}), state: make("span", {}), why: make("span", { class: "why" }) };
  row.bar = make("i", {});
  row.value = make("span", { class: "value" });
  row.float = make("div", { class: "float" }, make("span", { class: "track" }, row.bar), row.value);
  const inside = { name: [row.link], state: [row.state, row.why], float: [row.float] };
  row.cells = {};
  row.element = make("tr", {});
  for (const [key, , , number] of COLUMNS) {
    row.cells[key] = make("td", { class: `c-${key}${number ? " number" : ""}` }, ...(inside[key] ?? []));
    row.element.append(row.cells[key]);
  }
  row.element.append(make("td", { class: "c-lane" }));
  return row;
}

/** Writes only what is not there already. */
function set(row, key, value, write) {
  if (row.told[key] === value) return;
  row.told[key] = value;
  write(value);
}

function fill(row, line) {
  const text = (key, value) => set(row, key, value, () => (row.cells[key].textContent = value));
  const busy = line.state !== "idle";
  set(row, "name", line.name, () => {
    row.link.textContent = line.name;
    row.link.href = `#/container/${encodeURIComponent(line.id)}`;
    row.link.title = [line.name, line.image, line.pod && `${line.namespace}/${line.pod}`].filter(Boolean).join("\n");
  });
  text("gpu", line.gpu == null ? "–" : String(line.gpu));
  text("core", busy ? percent(line.gpu_core_ratio) : "–");
  text("memory", busy ? bytes(line.gpu_memory_bytes) : "–");
  set(row, "state", line.state, () => {
    row.state.textContent = line.state;
    row.state.className = `state ${line.state}`;
  });
  set(row, "why", line.reason ?? "", () => {
    row.why.textContent = line.reason ?? "";
    row.cells.state.title = line.reason ? `${line.state}, because ${line.reason}` : "";
  });
  text("deadline", line.deadline_us == null ? "–" : given(line.deadline_us / 1000));
  const all = line.hits + line.misses;
  text("hits", all ? `${line.hits}/${all} · ${rate(line.hits, all)}` : "–");
  tick(row, line);
}

/** What changes by itself: the float. */
function tick(row, line) {
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
}

/** Containers have changed. True if their order may have. */
export function change(changed, gone) {
  let again = gone.length > 0;
  for (const line of changed) {
    const row = rows.get(line.id);
    // Who is not on the screen is filled in when it comes there.
    if (row?.element.isConnected) fill(row, line);
    again ||= !line.seen;
  }
  return again || view.sort !== "name" || Boolean(view.filter);
}

/** The rows that are on the screen, and how high one is. */
function visible() {
  const board = $("board");
  const height = PHONE.matches ? 58 : 28;
  const first = Math.max(0, Math.floor(board.scrollTop / height));
  return { height, first, last: Math.min(shown.length, first + Math.ceil(board.clientHeight / height) + 1) };
}

/** Floats run down on those that are in the page. */
export function tickAll() {
  for (const id of shown.slice(placed.from, placed.to)) {
    const line = model.containers.get(id);
    if (line?.dueAt != null) tick(rows.get(id), line);
  }
}

/** Where lanes are: beside the rows, or on a telephone below each. */
function geometry() {
  const board = $("board");
  const head = $("headings").offsetHeight;
  if (PHONE.matches) return { left: 12, width: board.clientWidth - 24, head, inset: 34, lane: 14 };
  const heading = $("headings").lastElementChild;
  return { left: heading.offsetLeft + 8, width: heading.offsetWidth - 20, head, inset: 8, lane: 12 };
}

/** Draws the lanes of the rows that are on the screen. */
export function drawLanes() {
  const board = $("board");
  const { left, width, head, inset, lane } = geometry();
  const pen = lanes.sized($("lanes"), board.clientWidth, board.clientHeight);
  if (width < 40) return;
  const { height, first, last } = visible();
  const bottom = Math.min(board.clientHeight, head + shown.length * height - board.scrollTop);
  // On a telephone the lines would run through the words.
  if (!PHONE.matches) lanes.axis(pen, left, width, bottom, head);
  pen.save();
  pen.beginPath();
  pen.rect(0, head, board.clientWidth, board.clientHeight);
  pen.clip();
  for (let index = first; index < last; index += 1) {
    const line = model.containers.get(shown[index]);
    const bars = line && model.lanes.get(line.name);
    if (bars) lanes.lane(pen, bars, left, width, head + index * height - board.scrollTop + inset, lane);
  }
  pen.restore();
}

/** What is at a place of the screen: the bars of a row, a moment, how wide lanes are; nothing outside of them. */
export function pointed(x, y) {
  const board = $("board");
  const box = board.getBoundingClientRect();
  const { left, width, head } = geometry();
  const [inX, inY] = [x - box.left - left, y - box.top - head];
  if (inX < 0 || inX > width || inY < 0) return null;
  const line = model.containers.get(shown[Math.floor((inY + board.scrollTop) / visible().height)]);
  const share = inX / width;
  return { bars: (line && model.lanes.get(line.name)) ?? [], moment: lanes.from() + lanes.sight.length * share, share, width };
}
