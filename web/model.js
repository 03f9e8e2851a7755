// What the agent said, or the master, put together: containers and the bars of their tasks with holds and deadlines, or nodes. Times are
// milliseconds since 1970.

const LOST_AFTER = 20000; // whoever is asked says something every 15 s, if only that it is there
const AGAIN_FIRST = 300;
const AGAIN_MAX = 5000;

export const model = {
  node: null, // the machine, where an agent speaks
  master: null, // the master, where one speaks
  nodes: new Map(), // its node list, by node and GPU
  containers: new Map(), // by id
  lanes: new Map(), // by name: bars, by their start
  loadedSince: Infinity,
  mayChange: false,
  skew: 0,
};

const bars = new Map(); // by pid, GPU and start
const holds = new Map(); // by pid and GPU

/** The clock of whoever is asked. */
export const now = () => Date.now() + model.skew;

let token = sessionStorage.getItem("leeway-token");

/** Asks the agent, or the master. Who needs a token is asked for it by `door`. */
export async function ask(path, options = {}) {
  const headers = { ...options.headers };
  if (token) headers.Authorization = `Bearer ${token}`;
  return fetch(path, { ...options, headers, cache: "no-store" });
}

export function setToken(given) {
  token = given;
  sessionStorage.setItem("leeway-token", given);
}

export async function json(path) {
  const answer = await ask(path);
  if (!answer.ok) throw new Error((await answer.text()).trim() || `the answer was ${answer.status}`);
  return answer.json();
}

const laneOf = (name) => {
  if (!model.lanes.has(name)) model.lanes.set(name, []);
  return model.lanes.get(name);
};

const named = (line) => line.name ?? line.container ?? "(no container)";

/** Takes a task in, as it is now. */
export function see(task) {
  const key = `${task.pid} ${task.gpu} ${task.start}`;
  let bar = bars.get(key);
  if (!bar) {
    bar = { start: Date.parse(task.start), holds: [], name: named(task) };
    bars.set(key, bar);
    const lane = laneOf(bar.name);
    let at = lane.length;
    while (at > 0 && lane[at - 1].start > bar.start) at -= 1;
    lane.splice(at, 0, bar);
  }
  bar.task = task;
  bar.end = task.end ? bar.start + task.run_us / 1000 : null;
  bar.due = task.deadline_us == null ? null : bar.start + task.deadline_us / 1000;
  bar.holds = within(holds.get(`${task.pid} ${task.gpu}`) ?? [], bar);
}

const within = (all, bar) =>
  all.filter((hold) => hold.from >= bar.start - 1 && (bar.end == null || hold.from < bar.end + 1));

/** Takes a piece of news in: holds are the stretches between two of them. */
export function hear(event) {
  if (event.pid == null) return;
  const key = `${event.pid} ${event.gpu}`;
  const list = holds.get(key) ?? [];
  const at = Date.parse(event.time);
  const last = list[list.length - 1];
  if (event.event === "held") {
    if (list.some((hold) => hold.from === at)) return;
    list.push({ from: at, until: null, reason: event.reason });
    list.sort((a, b) => a.from - b.from);
  } else if (["released", "hold-expired", "finished"].includes(event.event)) {
    const open = list.find((hold) => hold.until == null && hold.from <= at);
    if (open) open.until = at;
    else if (!last) return;
  } else return;
  holds.set(key, list);
  for (const bar of model.lanes.get(named(event)) ?? []) {
    if (bar.task.pid === event.pid && bar.task.gpu === event.gpu) bar.holds = within(list, bar);
  }
}

/** Takes in one message of `/v1/live`. */
function take(line) {
  const at = Date.parse(line.time);
  // The quickest message says most of the difference between the clocks.
  const skew = at - Date.now();
  model.skew = line.all ? skew : Math.max(model.skew, skew);
  if (line.all) {
    model.containers.clear();
    const still = new Set(line.tasks.map((task) => `${task.pid} ${task.gpu} ${task.start}`));
    // Of what ran when the connection was lost, nobody knows the end, unless the agent says it.
    for (const [key, bar] of bars) {
      if (bar.end == null && !still.has(key)) drop(key, bar);
    }
  }
  if (line.node) model.node = line.node;
  if (line.master) model.master = line.master;
  if (line.nodes) line.left = rank(line.nodes, at);
  for (const id of line.gone) model.containers.delete(id);
  for (const container of line.containers) {
    container.dueAt = container.due ? Date.parse(container.due) : null;
    model.containers.set(container.id, container);
  }
  line.events.forEach(hear);
  line.tasks.forEach(see);
}

/** Takes in a node list; the ids of those that have left it. */
function rank(nodes, at) {
  const before = model.nodes;
  for (const [index, node] of nodes.entries()) {
    const id = `${node.node} ${node.gpu}`;
    Object.assign(node, { id, name: node.node, rank: index, at: at - node.age_us / 1000, seen: before.has(id) });
  }
  model.nodes = new Map(nodes.map((node) => [node.id, node]));
  return [...before.keys()].filter((id) => !model.nodes.has(id));
}

function drop(key, bar) {
  bars.delete(key);
  const lane = model.lanes.get(bar.name);
  lane.splice(lane.indexOf(bar), 1);
}

/** Forgets what ended before a moment: a server has a million requests a week. Who looks back that far loads it again. */
export function forget(before) {
  for (const [key, bar] of bars) if (bar.end != null && bar.end < before) bars.delete(key);
  for (const [name, lane] of model.lanes) {
    const kept = lane.filter((bar) => bar.end == null || bar.end >= before);
    if (kept.length) model.lanes.set(name, kept);
    else model.lanes.delete(name);
  }
  for (const [key, list] of holds) {
    const kept = list.filter((hold) => hold.until == null || hold.until >= before);
    if (kept.length) holds.set(key, kept);
    else holds.delete(key);
  }
  model.loadedSince = Math.max(model.loadedSince, before);
}

/** Loads what happened before, as far back as somebody wants to look. */
export async function load(since) {
  // Only an agent has tasks.
  if (!model.node || since >= model.loadedSince) return;
  model.loadedSince = since;
  const us = Math.floor(since * 1000);
  const [tasks, news] = await Promise.all([json(`/v1/tasks?since_us=${us}`), past(us)]);
  news.forEach(hear);
  tasks.forEach(see);
}

/** News that has happened already. */
async function past(us) {
  const answer = await ask(`/v1/events?follow=false&since_us=${us}&event=held,released,hold-expired,finished`);
  if (!answer.ok) return [];
  return [...events(await answer.text())].map((data) => JSON.parse(data));
}

function* events(text) {
  for (const line of text.split("\n")) if (line.startsWith("data:")) yield line.slice(5);
}

/** Follows the agent, or the master, for ever. `told` hears of each message, `is` of how the connection stands: live, lost, door. */
export async function follow(before, told, is) {
  let wait = AGAIN_FIRST;
  for (;;) {
    try {
      const since = Math.floor((now() - before) * 1000);
      for await (const line of live(`/v1/live?since_us=${since}`)) {
        if (line.door) {
          await is("door");
          break;
        }
        wait = AGAIN_FIRST;
        const started = performance.now();
        take(line);
        model.loadedSince = Math.min(model.loadedSince, since / 1000);
        is("live");
        told(line, started);
      }
    } catch {
      // That the connection broke is said below; why, the browser's console knows.
    }
    is("lost", wait);
    await new Promise((done) => setTimeout(done, wait));
    wait = Math.min(wait * 2, AGAIN_MAX);
  }
}

/** The messages of a stream of server-sent events. `EventSource` could not say who asks. */
async function* live(path) {
  const stop = new AbortController();
  const answer = await ask(path, { signal: stop.signal });
  if (answer.status === 401) {
    yield { door: true };
    return;
  }
  if (!answer.ok) return;
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const timer = setTimeout(() => stop.abort(), LOST_AFTER);
    const { value, done } = await reader.read().finally(() => clearTimeout(timer));
    if (done) return;
    text += value;
    const end = text.lastIndexOf("\n");
    for (const data of events(text.slice(0, end + 1))) yield JSON.parse(data);
    text = text.slice(end + 1);
  }
}
