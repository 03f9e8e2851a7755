// The table: a row for each container of an agent, or each GPU of a master's nodes, changed where something has changed; and lanes beside it.
//
// What it is of says what a row has: `containers.js` and `nodes.js`. Of many lines, only those on the screen are in the page: a browser
// takes half a second to lay out five hundred.

import * as lanes from "./lanes.js";
import { make } from "./words.js";

const $ = (id) => document.getElementById(id);
const PHONE = window.matchMedia("(max-width: 720px)");


let kind = null; // what it is of: columns, lines, parts, fill, tick; bars, where there are lanes
const ALL_MAX = 100; // so many rows are in the page whether they are on the screen or not
const BEYOND = 8; // rows that are ready above and below the screen
const pads = [make("tr", { ariaHidden: "true" }), make("tr", { ariaHidden: "true" })];
let placed = { from: 0, to: 0, ids: null };

const view = { sort: "", reversed: false, filter: "" };
const rows = new Map(); // by id
let shown = []; // ids in order

/** Hears of the filter. */
export function begin(changed) {
  $("filter").addEventListener("input", (event) => {
    view.filter = event.target.value.toLowerCase();
    if (kind) arrange();
    changed();
  });
}

/** Is a table of something else from now on. */
export function show(what, changed) {
  if (kind === what) return;
  kind = what;
  rows.clear();
  shown = [];
  [view.sort, view.reversed] = [kind.columns[0][0], false];
  const headings = kind.columns.map(([key, words, , number]) => {
    const button = make("button", { type: "button", onclick: () => sortBy(key, changed) }, words);
    return make("th", { class: `c-${key}${number ? " number" : ""}`, scope: "col" }, button);
  });
  if (kind.bars) headings.push(make("th", { class: "c-lane", scope: "col" }, make("span", { class: "hidden" }, "Timeline")));
  $("headings").replaceChildren(...headings);
  $("caption").textContent = kind.caption;
  $("board").ariaLabel = kind.label;
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
    if (kind.columns[index]?.[0] === view.sort) heading.setAttribute("aria-sort", view.reversed ? "descending" : "ascending");
    else heading.removeAttribute("aria-sort");
  });
}

/** Which rows are there, and in which order. */
export function arrange() {
  const by = kind.columns.find(([key]) => key === view.sort)[2];
  const lines = kind.lines();
  const wanted = [...lines.values()].filter((line) => !view.filter || kind.words(line).some((words) => words.toLowerCase().includes(view.filter)));
  const less = (a, b) => (a < b ? -1 : a > b ? 1 : 0);
  wanted.sort((a, b) => less(by(a), by(b)) || less(a.name, b.name));
  if (view.reversed) wanted.reverse();
  for (const [id, row] of rows) {
    if (!lines.has(id)) {
      row.element.remove();
      rows.delete(id);
    }
  }
  const ids = wanted.map((line) => line.id);
  if (ids.length !== shown.length || ids.some((id, index) => id !== shown[index])) shown = ids;
  place();
  const all = lines.size;
  $("count").textContent = wanted.length === all ? `${all} ${kind.noun}${all === 1 ? "" : "s"}` : `${wanted.length} of ${all}`;
  $("empty").hidden = wanted.length > 0;
  $("empty").textContent = all ? `No ${kind.noun} has these letters in its name or state.` : kind.none;
}

/** Puts the rows into the page that must be there. */
export function place() {
  if (!kind) return;
  const { first, last, height } = visible();
  const many = shown.length > ALL_MAX;
  const from = many ? Math.max(0, first - BEYOND) : 0;
  const to = many ? Math.min(shown.length, last + BEYOND) : shown.length;
  if (placed.ids === shown && placed.from === from && placed.to === to) return;
  placed = { from, to, ids: shown };
  pads[0].style.height = `${from * height}px`;
  pads[1].style.height = `${(shown.length - to) * height}px`;
  const elements = shown.slice(from, to).map((id, index) => {
    const row = rowOf(kind.lines().get(id));
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
  const row = { id, told: {}, cells: {}, element: make("tr", {}) };
  const inside = kind.parts(row);
  for (const [key, , , number] of kind.columns) {
    row.cells[key] = make("td", { class: `c-${key}${number ? " number" : ""}` }, ...(inside[key] ?? []));
    row.element.append(row.cells[key]);
  }
  if (kind.bars) row.element.append(make("td", { class: "c-lane" }));
  return row;
}

/** Writes only what is not there already. */
export function set(row, key, value, write) {
  if (row.told[key] === value) return;
  row.told[key] = value;
  write(value);
}

/** Words of a cell. */
export const text = (row, key, words) => set(row, key, words, () => (row.cells[key].textContent = words));

function fill(row, line) {
  kind.fill(row, line);
  kind.tick(row, line);
}

/** Lines have changed. True if their order may have. */
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

/** What changes by itself, on those that are in the page. */
export function tickAll() {
  if (!kind) return;
  for (const id of shown.slice(placed.from, placed.to)) {
    const line = kind.lines().get(id);
    if (line) kind.tick(rows.get(id), line);
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
  if (!kind?.bars) return;
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
    const bars = kind.bars(kind.lines().get(shown[index]));
    if (bars.length) lanes.lane(pen, bars, left, width, head + index * height - board.scrollTop + inset, lane);
  }
  pen.restore();
}

/** What is at a place of the screen: the bars of a row, a moment, how wide lanes are; nothing outside of them. */
export function pointed(x, y) {
  if (!kind?.bars) return null;
  const board = $("board");
  const box = board.getBoundingClientRect();
  const { left, width, head } = geometry();
  const [inX, inY] = [x - box.left - left, y - box.top - head];
  if (inX < 0 || inX > width || inY < 0) return null;
  const bars = kind.bars(kind.lines().get(shown[Math.floor((inY + board.scrollTop) / visible().height)]));
  const share = inX / width;
  return { bars, moment: lanes.from() + lanes.sight.length * share, share, width };
}
