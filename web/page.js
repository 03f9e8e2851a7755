// The page: hears the agent, and shows all containers or one; or hears a master, and shows its nodes. It says what the connection is like.

import { follow, forget, json, load, model, now, setToken } from "./model.js";
import * as lanes from "./lanes.js";
import * as table from "./table.js";
import * as one from "./container.js";
import { containers } from "./containers.js";
import { nodes } from "./nodes.js";
import { bytes, clock, given, make, percent, rate, span } from "./words.js";

const $ = (id) => document.getElementById(id);
const TICK = 200; // how often floats run down and lanes move
const ARRANGE_EVERY = 1000; // rows that jump cannot be read
const HISTORY_EVERY = 5000;
const SPANS = [["1 min", 60000], ["10 min", 600000], ["1 h", 3600000], ["1 day", 86400000]];
const BEFORE = 60000;
// Starts and ends are in the timeline; of what happens, this is worth a line.
const NOTABLE = ["missed", "hold-expired", "leaked", "suggested", "swapped-out", "swapped-in", "placed", "moved", "refused"];
const NEWS_KEPT = 100;
const heard = new Set();
const KEPT = 600000; // what ended longer ago, and twice as long ago as is shown, is forgotten

let paused = false;
let waiting = false; // a frame is asked for
let stale = { rows: [], gone: [], node: false, order: true };
let arranged = 0;
let since = null; // when the oldest change came that is not on the screen

// ---- what the agent says, or the master

function told(line, started) {
  document.body.dataset.of = model.master ? "master" : "agent";
  table.show(model.master ? nodes : containers, ask);
  stale.rows.push(...line.containers, ...(line.nodes ?? []));
  stale.gone.push(...line.gone, ...(line.left ?? []));
  stale.node ||= Boolean(line.node || line.master || line.nodes);
  stale.order ||= line.all;
  since ??= started;
  for (const event of line.events) {
    if (event.event === "missed" && !line.all) $("spoken").textContent = `${event.name ?? "A process"} missed its deadline`;
    if (NOTABLE.includes(event.event)) tell(event);
  }
  ask();
}

/** What happened, the latest first. What was told already, as after a lost connection, is not told again. */
function tell(event) {
  const key = `${event.time} ${event.event} ${event.name}`;
  if (heard.has(key)) return;
  heard.add(key);
  const where = model.master ? ` on ${event.node}` : "";
  const words = [clock(Date.parse(event.time)), event.event, `${event.name ?? `process ${event.pid}`}${where}`, event.reason];
  const [time, what, who, why] = words.map((text) => make("span", { title: text }, text));
  [time.className, what.className] = ["quiet", event.event];
  $("news").prepend(make("li", {}, time, what, who, why));
  while ($("news").children.length > NEWS_KEPT) $("news").lastElementChild.remove();
}

async function connection(is, wait) {
  const box = $("status");
  if (is === "door") return enter();
  if (is === "live") {
    box.dataset.is = paused ? "paused" : "live";
    box.textContent = paused ? "paused" : "live";
  } else {
    box.dataset.is = "lost";
    box.textContent = `connection lost, trying again${wait > 1000 ? ` in ${Math.round(wait / 1000)} s` : ""}`;
  }
}

/** Asks for the token, until it is right. */
function enter() {
  const door = $("door");
  return new Promise((done) => {
    if (!door.open) door.showModal();
    $("door-form").onsubmit = async (event) => {
      event.preventDefault();
      setToken($("token").value);
      try {
        await json("/v1/access");
        door.close();
        access();
        done();
      } catch {
        $("door-wrong").hidden = false;
      }
    };
  });
}

async function access() {
  try {
    model.mayChange = (await json("/v1/access")).may_change;
  } catch {
    model.mayChange = false;
  }
}

// ---- what is shown

/** Asks for a frame; many that ask get one. */
function ask() {
  if (waiting || paused) return;
  waiting = true;
  requestAnimationFrame(() => {
    waiting = false;
    frame();
  });
}

function frame() {
  if (!model.node && !model.master) return;
  const { rows, gone, node } = stale;
  const again = table.change(rows, gone) || stale.order;
  const due = performance.now() - arranged > ARRANGE_EVERY;
  // A row that is new or gone is shown at once, another order when there was time to read.
  if (again && (stale.order || due || gone.length || rows.some((line) => !line.seen))) {
    table.arrange();
    arranged = performance.now();
    rows.forEach((line) => (line.seen = true));
    stale.order = false;
  } else stale.order = again;
  stale.rows = [];
  stale.gone = [];
  stale.node = false;
  if (node) header();
  if (one.isOpen()) {
    if (rows.length || node) one.again();
    else one.draw();
  } else {
    table.drawLanes();
  }
  if (since != null) {
    performance.measure("update", { start: since, end: performance.now() });
    since = null;
  }
}

function header() {
  if (model.master) return cluster(model.master);
  const node = model.node;
  $("node").textContent = node.node;
  const seen = node.tier === "none" ? "sees no GPU" : `${node.tier}, to within ${span(node.error_us / 1000)}`;
  $("facts").textContent = `policy ${node.policy} · ${seen}${node.docker ? "" : " · no Docker"}`;
  $("gpus").replaceChildren(...node.gpus.map(gpu));
  if (!one.isOpen()) document.title = `${node.node} · Leeway`;
}

function cluster(master) {
  const role = master.active ? "is active" : master.leader ? `waits: ${master.leader} leads` : "waits: the swarm has no leader";
  const agents = `${master.agents} agent${master.agents === 1 ? "" : "s"}`;
  const placed = master.placements ? ` · ${master.placements} placed, 99 % within ${span(master.placement_p99_us / 1000)}` : "";
  $("node").textContent = `master ${master.address}`;
  $("facts").textContent = `${role} · ${agents}${placed}`;
  document.title = "Cluster · Leeway";
}

function gpu(line) {
  const meter = (words, share, figure) =>
    make("span", { class: "meter" }, make("span", { class: "quiet" }, words), make("progress", { max: 1, value: share, "aria-label": `${words} of GPU ${line.gpu}` }), make("span", {}, figure));
  const title = make("b", {}, `GPU ${line.gpu}`, make("span", { class: "name" }, line.name));
  if (line.lost) return make("div", { class: "gpu lost" }, title, make("span", { class: "wrong" }, "does not answer"));
  const left = line.float_us == null ? "float unlimited" : `float ${span(line.float_us / 1000)}`;
  const says = make("span", { class: "says" }, make("span", { class: line.float_us < 0 ? "wrong" : "" }, left), line.provisionable ? "" : make("span", { class: "tight" }, " · takes no more"));
  const memory = `${bytes(line.memory_used_bytes)} of ${bytes(line.memory_total_bytes)}`;
  return make("div", { class: "gpu" }, title, meter("core", line.core_ratio, percent(line.core_ratio)), meter("memory", line.memory_used_bytes / Math.max(1, line.memory_total_bytes), memory), says);
}

async function history() {
  if (paused || document.hidden || one.isOpen() || !model.node) return;
  const [start, end] = [now() - Math.max(lanes.sight.length, 3600000), now()];
  try {
    const lines = await json(`/v1/history?since_us=${Math.floor(start * 1000)}`);
    const sum = (key) => lines.reduce((total, line) => total + line[key], 0);
    const [hits, misses] = [sum("hits"), sum("misses")];
    $("rate").textContent = rate(hits, hits + misses);
    $("rate-words").textContent = hits + misses ? `of ${hits + misses} deadlines met in ${given(end - start)}` : "no deadline was due yet";
    lanes.history($("history"), lines, start, end);
  } catch {
    // The status line says that the connection is lost.
  }
}

// ---- what the person does

function look() {
  $("now").hidden = lanes.sight.end == null;
  for (const button of $("spans").children) button.setAttribute("aria-pressed", String(Number(button.value) === lanes.sight.length));
  load(lanes.from() - lanes.sight.length * 0.2).then(ask, () => {});
  if (one.isOpen()) one.again();
  history();
  ask();
}

function route() {
  const id = location.hash.startsWith("#/container/") ? decodeURIComponent(location.hash.slice(12)) : null;
  $("all").hidden = id != null;
  $("one").hidden = id == null;
  $("tip").hidden = true;
  if (id) one.show(id);
  else {
    one.close();
    stale.order = true;
    if (model.node || model.master) header();
    history();
    ask();
  }
}

function pause() {
  paused = !paused;
  $("pause").setAttribute("aria-pressed", String(paused));
  $("pause").textContent = paused ? "Go on" : "Pause";
  if ($("status").dataset.is !== "lost") connection("live");
  ask();
}

function theme(next) {
  const dark = window.matchMedia("(prefers-color-scheme: dark)").matches;
  document.documentElement.dataset.theme = next === "auto" ? (dark ? "dark" : "light") : next;
  $("theme").textContent = { auto: "Auto", dark: "Dark", light: "Light" }[next];
  $("theme").value = next;
  localStorage.setItem("leeway-theme", next);
  lanes.readColours();
  history();
  ask();
}

const pointed = (event) => (one.isOpen() ? one : table).pointed(event.clientX, event.clientY);

function hover(event) {
  const tip = $("tip");
  const at = pointed(event);
  const bar = at && lanes.at(at.bars, at.moment, at.width);
  tip.hidden = !bar;
  if (!bar) return;
  tip.replaceChildren(...lanes.about(bar, at.moment).filter(Boolean));
  const [width, height] = [tip.offsetWidth, tip.offsetHeight];
  tip.style.left = `${Math.max(4, Math.min(event.clientX + 14, innerWidth - width - 6))}px`;
  tip.style.top = `${event.clientY + 16 + height > innerHeight ? Math.max(4, event.clientY - height - 10) : event.clientY + 16}px`;
}

function drags() {
  let drag = null;
  document.addEventListener("pointerdown", (event) => {
    const at = event.pointerType === "mouse" && event.button === 0 ? pointed(event) : null;
    drag = at && { x: event.clientX, end: lanes.until(), width: at.width };
  });
  document.addEventListener("pointermove", (event) => {
    if (drag) {
      lanes.move(drag.end - ((event.clientX - drag.x) / drag.width) * lanes.sight.length);
      ask();
    }
    hover(event);
  });
  document.addEventListener("pointerup", () => {
    if (drag) look();
    drag = null;
  });
  document.addEventListener("pointerleave", () => ($("tip").hidden = true));
  document.addEventListener("wheel", (event) => {
    const at = event.ctrlKey || event.metaKey ? pointed(event) : null;
    if (!at) return;
    event.preventDefault();
    lanes.zoom(event.deltaY > 0 ? 1.25 : 0.8, at.share);
    look();
  }, { passive: false });
}

function keys(event) {
  if (event.target.matches("input") || event.ctrlKey || event.metaKey || event.altKey) {
    if (event.key === "Escape" && event.target === $("filter")) event.target.blur();
    return;
  }
  const act = {
    "/": () => $("filter").focus(),
    "+": () => lanes.zoom(0.5),
    "=": () => lanes.zoom(0.5),
    "-": () => lanes.zoom(2),
    ArrowLeft: () => lanes.move(lanes.until() - lanes.sight.length / 4),
    ArrowRight: () => lanes.move(lanes.until() + lanes.sight.length / 4),
    0: () => lanes.move(Infinity),
    p: pause,
    "?": () => $("keys").showModal(),
    Escape: () => (location.hash = "#/"),
  }[event.key];
  if (!act || document.querySelector("dialog[open]")) return;
  event.preventDefault();
  act();
  look();
}

function begin() {
  for (const [words, length] of SPANS) {
    const choose = () => {
      lanes.sight.length = length;
      lanes.move(Infinity);
      look();
    };
    $("spans").append(make("button", { type: "button", value: String(length), onclick: choose }, words));
  }
  table.begin(ask);
  theme(localStorage.getItem("leeway-theme") ?? "auto");
  $("pause").onclick = pause;
  $("help").onclick = () => $("keys").showModal();
  $("theme").onclick = () => theme({ auto: "dark", dark: "light", light: "auto" }[$("theme").value]);
  $("now").onclick = () => (lanes.move(Infinity), look());
  const scrolled = () => {
    table.place();
    table.drawLanes();
  };
  $("board").addEventListener("scroll", scrolled, { passive: true });
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => theme($("theme").value));
  window.addEventListener("resize", () => (table.place(), history(), ask()));
  window.addEventListener("hashchange", route);
  document.addEventListener("keydown", keys);
  drags();
  const handed = new URLSearchParams(location.hash.slice(1)).get("token");
  if (handed) {
    // Handed over once, by the address; it should not stay there.
    setToken(handed);
    window.history.replaceState(null, "", "#/");
  }
  route();
  look();
  access();
  setInterval(() => {
    if (paused || document.hidden) return;
    if (!one.isOpen()) table.tickAll();
    ask();
  }, TICK);
  setInterval(history, HISTORY_EVERY);
  setInterval(() => {
    if (lanes.sight.end == null && !paused) forget(now() - Math.max(2 * lanes.sight.length, KEPT));
    if (heard.size > 10 * NEWS_KEPT) heard.clear();
  }, KEPT / 10);
  follow(BEFORE, (line, started) => {
    told(line, started);
    if (line.all) look();
  }, connection);
}

begin();
