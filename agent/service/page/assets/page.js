/* The live page. Whatever sensors and far ends call themselves is text here: nothing is ever parsed as HTML. */

const POLL_MS = 5000; // while updates cannot be had
const MAX_EVENTS = 14;
const CURVE = { width: 150, height: 36, margin: 3 };
const SVG = "http://www.w3.org/2000/svg";
const UNITS = { Cel: "°C", "[degF]": "°F", K: "K", "m/s2": "m/s²", m2: "m²", m3: "m³", "ug/m3": "µg/m³", deg: "°", Ohm: "Ω", "1": "" };
const LEVELS = { WARNING: "attention", ERROR: "bad", CRITICAL: "bad" };
const LONG_HEX = /\b([0-9a-f]{8})[0-9a-f]{24,}\b/g; // digests in events: their first digits distinguish them
const DEVICE_MOODS = { up: "good", silent: "attention", degraded: "attention", down: "bad" };

const WIDE = matchMedia("(min-width: 34.01rem)"); // as in page.css

const byId = (id) => document.getElementById(id);
const history = new Map(); // of a sensor: its last values, null where there was none
let maxPoints = 150;
let spoken = "";

/* Elements */

function make(tag, className = "", ...children) {
  const element = document.createElement(tag);
  if (className) element.className = className;
  element.append(...children);
  return element;
}

function write(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

function show(element, text) {
  element.hidden = !text;
  write(element, text);
}

/* One child per item, by its name: made once, changed in place, so that nothing flickers and no focus is lost. */
function fill(parent, items, nameOf, create, update) {
  const known = parent.known ?? (parent.known = new Map());
  const names = new Set(items.map(nameOf));
  for (const [name, element] of known) {
    if (!names.has(name)) {
      element.remove();
      known.delete(name);
    }
  }
  items.forEach((item, place) => {
    const name = nameOf(item);
    if (!known.has(name)) known.set(name, create(item));
    const element = known.get(name);
    update(element, item);
    if (parent.children[place] !== element) parent.insertBefore(element, parent.children[place] ?? null);
  });
}

/* Figures: pairs of a name and a value in a <dl>. */
function fillFigures(list, pairs) {
  fill(
    list,
    pairs.filter(([, value]) => value !== null),
    ([name]) => name,
    ([name]) => make("div", "", make("dt", "", name), make("dd")),
    (element, [, value]) => write(element.lastChild, value),
  );
}

/* Numbers and times for people */

function number(value, digits = 0) {
  return value.toLocaleString("en", { maximumFractionDigits: digits }).replace("-", "−");
}

function bytes(count) {
  for (const [unit, size] of [["TB", 1e12], ["GB", 1e9], ["MB", 1e6], ["kB", 1e3]]) {
    if (count >= size) return [number(count / size, count < 10 * size ? 1 : 0), unit];
  }
  return [number(count), "B"];
}

function duration(seconds) {
  if (seconds === null) return "–";
  for (const [unit, size] of [["years", 31536000], ["days", 86400], ["h", 3600], ["min", 60]]) {
    if (seconds >= 2 * size) return `${number(seconds / size, seconds < 10 * size ? 1 : 0)} ${unit}`;
  }
  return `${number(seconds)} s`;
}

function clockTime(ms) {
  return new Date(ms).toLocaleTimeString("en-GB");
}

/* Whole numbers stay whole; others keep their decimals, so that a live value does not change its width. */
function plain(value, isWhole) {
  const size = Math.abs(value);
  if (size !== 0 && (size >= 1e9 || size < 1e-3)) return value.toPrecision(3).replaceAll("-", "−");
  const digits = isWhole || size >= 1000 ? 0 : size >= 100 ? 1 : size >= 1 ? 2 : 3;
  return value.toLocaleString("en", { minimumFractionDigits: digits, maximumFractionDigits: digits }).replace("-", "−");
}

/* A value and its unit, as they are shown. */
function shown(value, unit, isWhole) {
  if (typeof value === "boolean") return [value ? "on" : "off", ""];
  if (typeof value !== "number") return [String(value), UNITS[unit] ?? unit];
  if (unit === "By" || unit === "By/s") {
    const [count, size] = bytes(Math.abs(value));
    return [value < 0 ? `−${count}` : count, size + unit.slice(2)];
  }
  if (unit === "s" && value >= 120) return duration(value).split(" ");
  return [plain(value, isWhole), UNITS[unit] ?? unit];
}

const words = (name) => name.replaceAll("_", " ");

/* Curves */

function makeCurve() {
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("viewBox", `0 0 ${CURVE.width} ${CURVE.height}`);
  svg.setAttribute("preserveAspectRatio", "none");
  svg.setAttribute("role", "img");
  for (const part of ["under", "curve", "now"]) {
    const path = document.createElementNS(SVG, "path");
    path.setAttribute("class", part);
    svg.append(path);
  }
  return svg;
}

/* Runs of neighbouring points; a null ends a run. The newest is at the right. */
function runsOf(values, low, high) {
  const { width, height, margin } = CURVE;
  const stepX = (width - 2 * margin) / (maxPoints - 1);
  const startX = width - margin - stepX * (values.length - 1);
  const scale = high > low ? (height - 2 * margin) / (high - low) : 0;
  const runs = [[]];
  values.forEach((value, place) => {
    if (value === null) runs.push([]);
    else runs.at(-1).push([startX + place * stepX, scale ? height - margin - (value - low) * scale : height / 2]);
  });
  return runs.filter((run) => run.length > 0);
}

function drawCurve(svg, values, label) {
  const known = values.filter((value) => value !== null);
  const runs = known.length ? runsOf(values, Math.min(...known), Math.max(...known)) : [];
  const lines = runs.map((run) => run.map(([x, y]) => `${x.toFixed(1)} ${y.toFixed(1)}`).join("L"));
  const [under, curve, now] = svg.children;
  const bottom = CURVE.height;
  under.setAttribute("d", runs.map((run, i) => `M${run[0][0].toFixed(1)} ${bottom}L${lines[i]}L${run.at(-1)[0].toFixed(1)} ${bottom}Z`).join(""));
  curve.setAttribute("d", lines.map((line) => `M${line}`).join(""));
  const last = values.at(-1) === null ? undefined : runs.at(-1)?.at(-1);
  now.setAttribute("d", last ? `M${last[0].toFixed(1)} ${last[1].toFixed(1)}h0` : "");
  svg.setAttribute("aria-label", label);
}

/* The parts of the page */

function showHead(status) {
  write(byId("name"), status.device.name);
  write(byId("address"), status.device.address);
  write(byId("as-of"), `as of ${clockTime(status.written_at_ms)}`);
  write(byId("version"), `Headgate ${status.headgate}, running for ${duration((status.written_at_ms - status.started_at_ms) / 1000)}`);
  document.title = `${status.device.name} · Headgate`;
}

/* What is wrong with the agent's surroundings, the worst first in each section. The badge and the list both come from it. */
function problemsOf(status) {
  const devices = Object.entries(status.devices).filter(([, device]) => ["down", "degraded", "silent"].includes(device.state));
  const links = Object.entries(status.links).filter(([, link]) => !link.is_up || link.blocked);
  const { problem, ship_problem, log } = status.archives ?? {};
  return [
    ...devices.map(([name, device]) => ({ mood: DEVICE_MOODS[device.state], what: `device ${name} is ${device.state}`, why: withoutName(device.reason, name) })),
    ...links.map(([name, link]) => ({ mood: "attention", what: `link ${name} is ${link.is_up ? "blocked" : "down"}`, why: link.is_up ? link.blocked : link.problem })),
    ...(status.clock.is_synchronised ? [] : [{ mood: "attention", what: "clock not synchronised", why: "messages are marked, and corrected once a time server or a receiver sets it" }]),
    ...(problem ? [{ mood: "bad", what: "archiving fails", why: problem }] : []),
    ...(ship_problem ? [{ mood: "attention", what: "archives are not shipped", why: ship_problem }] : []),
    ...(log?.problem ? [{ mood: "bad", what: "the device log is incomplete", why: log.problem }] : []),
  ];
}

/* The badge: its mood, its text, and what is read out. */
function judge(notStoring, problems) {
  if (notStoring.length) return ["bad", "not storing", notStoring.join("; ")];
  if (!problems.length) return ["good", "OK", "OK"];
  const mood = problems.some((each) => each.mood === "bad") ? "bad" : "attention";
  const text = problems.length > 1 ? `${problems.length} problems` : problems[0].what;
  return [mood, text, problems.map((each) => each.what).join(", ")];
}

/* What is wrong, before all that is well: on a phone the sensors are several screens long. */
function showProblems(problems) {
  fill(byId("problems"), problems, ({ what }) => what, makeProblem, (element, { why }) => write(element.lastChild, why));
  byId("problems").hidden = !problems.length;
}

const withoutName = (reason, name) => (reason.startsWith(`${name}: `) ? reason.slice(name.length + 2) : reason);

function makeProblem({ mood, what }) {
  const element = make("li", "", make("strong", "", what), make("span", "quiet"));
  element.dataset.mood = mood;
  return element;
}

function showState(mood, text, told) {
  const badge = byId("state");
  badge.dataset.mood = mood;
  write(badge, text);
  if (told !== spoken) write(byId("said"), told); // only changes are read out
  spoken = told;
}

function showOutlook(status) {
  const { journal, clock } = status;
  const used = 1 - journal.free_bytes / Math.max(1, journal.max_bytes);
  const pending = Object.keys(status.links).map((name) => [journal.pending[name] ?? 0, journal.oldest_pending_s[name]]);
  const [most, oldest] = pending.reduce((a, b) => (b[0] > a[0] ? b : a), [0, null]);
  const full = journal.full_in_s;
  const lost = journal.shed_readings + journal.damaged_readings;
  const tiles = [
    { name: "Waiting to be sent", value: number(most), note: oldest === null ? "all readings are sent" : `readings, up to ${duration(oldest)}` },
    { name: "Journal used", value: `${number(100 * used, used < 0.1 ? 1 : 0)} %`, note: `of ${bytes(journal.max_bytes).join(" ")}`, part: used, mood: used > 0.9 ? "bad" : used > 0.7 ? "attention" : "" },
    { name: "Full in", value: full === null ? "–" : duration(full), note: lost ? `lost so far: ${number(lost)} readings` : "if nothing is sent; nothing was lost", mood: lost || (full !== null && full < 3600) ? "attention" : "" },
    { name: "Card lasts", value: journal.card_life_s === null ? "–" : duration(journal.card_life_s), note: journal.card_life_s === null ? "its endurance is not configured" : `${bytes(journal.written_bytes_per_s).join(" ")}/s are written` },
    { name: "Clock", value: clock.is_synchronised ? "in sync" : "not in sync", note: clock.is_synchronised ? `within ${clock.max_error_ms < 2000 ? `${number(clock.max_error_ms)} ms` : duration(clock.max_error_ms / 1000)}` : "messages are marked, and corrected later", mood: clock.is_synchronised ? "" : "attention" },
  ];
  fill(byId("outlook"), tiles, (tile) => tile.name, makeTile, updateTile);
}

function makeTile({ name, part }) {
  const tile = make("div", "", make("dt", "", name), make("dd", "large"), make("dd", "quiet"));
  if (part !== undefined) {
    const bar = make("dd", "bar", make("span"));
    bar.setAttribute("aria-hidden", "true");
    tile.append(bar);
  }
  return tile;
}

function updateTile(tile, { value, note, part, mood }) {
  const [, large, quiet, bar] = tile.children;
  write(large, value);
  large.dataset.mood = mood ?? "";
  write(quiet, note);
  if (bar) bar.firstChild.style.width = `${Math.min(100, 100 * part)}%`;
}

/* The gateway's own figures come last: sensors are more interesting. */
function showDevices(devices) {
  const isGateway = ([, device]) => device.driver === "system";
  const entries = Object.entries(devices);
  const ordered = [...entries.filter((entry) => !isGateway(entry)), ...entries.filter(isGateway)];
  fill(byId("devices"), ordered, ([name]) => name, makeDevice, updateDevice);
}

function makeDevice([name]) {
  const head = make("div", "device-head", make("h3", "", name), make("span", "badge"), make("span", "quiet"), make("p", "problem"));
  return make("div", "device", head, make("ul", "sensors"));
}

function updateDevice(element, [name, device]) {
  const [head, sensors] = element.children;
  const [, badge, count, problem] = head.children;
  element.dataset.mood = badge.dataset.mood = DEVICE_MOODS[device.state] ?? "none";
  write(badge, device.state);
  const rejected = device.rejected.total ? `; ${number(device.rejected.total)} inputs could not be parsed (${device.rejected.kinds[0].sensor}: ${device.rejected.kinds[0].reason})` : "";
  write(count, `${number(device.readings)} readings${device.has_more_sensors ? "; more sensors than are shown" : ""}${rejected}`);
  show(problem, device.reason);
  const named = device.sensors.map((sensor) => ({ ...sensor, device: name, key: keyOf(name, sensor) }));
  fill(sensors, named, (sensor) => sensor.key, makeSensor, updateSensor);
}

const keyOf = (device, { sensor, quantity }) => JSON.stringify([device, sensor, quantity]);

function makeSensor({ device, sensor, quantity, value }) {
  const what = make("p", "what", words(quantity));
  if (sensor !== device) what.append(` · ${sensor}`);
  const figure = make("p", "value", make("span"), make("span", "unit"));
  const range = make("p", "range quiet", make("span"), make("span"));
  return make("li", "sensor", what, figure, ...(typeof value === "string" ? [] : [makeCurve(), range]));
}

function updateSensor(element, sensor) {
  const [, figure, svg, range] = element.children;
  const values = history.get(sensor.key) ?? [];
  const isWhole = [sensor.value, ...values].every((each) => each === null || Number.isInteger(each));
  const [value, unit] = shown(sensor.value, sensor.unit, isWhole);
  figure.classList.toggle("is-text", typeof sensor.value === "string");
  write(figure.firstChild, value);
  write(figure.lastChild, unit);
  if (!svg) return;
  const spread = typeof sensor.value === "boolean" ? "" : spreadOf(values, sensor.unit, isWhole);
  drawCurve(svg, values, `${words(sensor.quantity)} in the last minutes${spread && `: ${spread}`}`);
  write(range.firstChild, spread);
  write(range.lastChild, age(sensor.taken_at_ms));
}

/* From the least to the most, in words; nothing where they look the same. */
function spreadOf(values, unit, isWhole) {
  const known = values.filter((each) => each !== null);
  if (!known.length) return "";
  const [low, high] = [Math.min(...known), Math.max(...known)].map((each) => shown(each, unit, isWhole));
  if (low.join() === high.join()) return "";
  return `${low[1] === high[1] ? low[0] : low.join(" ")} – ${high.join(" ")}`.trim();
}

let agentNow = 0; // by the agent's clock, which need not be ours
function age(at) {
  const seconds = (agentNow - at) / 1000;
  return seconds > 10 ? `${duration(seconds)} ago` : "";
}

function showLinks(status) {
  const links = Object.entries(status.links).map(([name, link]) => ({ name, link, pending: status.journal.pending[name], oldest: status.journal.oldest_pending_s[name] }));
  fill(byId("links"), links, ({ name }) => name, makeLink, updateLink);
  if (!links.length) showEmpty(byId("links"), "No publisher is configured; messages stay in the journal.");
}

function showEmpty(list, text) {
  fill(list, [text], (each) => each, (each) => make("li", "empty", each), () => {});
}

function makeLink({ name }) {
  const head = make("div", "link-head", make("h3", "", name), make("span", "badge"));
  return make("li", "link", head, make("p", "problem"), make("dl", "figures"), make("p", "past quiet"));
}

function updateLink(element, { link, pending, oldest }) {
  const [head, problem, figures, past] = element.children;
  const badge = head.lastChild;
  badge.dataset.mood = link.is_up && !link.blocked ? "good" : "attention";
  write(badge, link.is_up ? (link.blocked ? "blocked" : "up") : "down");
  show(problem, link.is_up ? link.blocked : link.problem);
  show(past, link.is_up && link.problem ? `last problem: ${link.problem}` : "");
  fillFigures(figures, [
    ["readings pending", pending ? `${number(pending)} for ${duration(oldest ?? null)}` : "0"],
    ["readings sent", number(link.readings_acknowledged)],
    ["messages sent", number(link.messages_acknowledged)],
    ["last at", link.last_acknowledged_at_ms === null ? "never" : clockTime(link.last_acknowledged_at_ms)],
    ["readings quarantined", link.readings_quarantined ? number(link.readings_quarantined) : null],
    ["messages removed", link.messages_removed ? number(link.messages_removed) : null],
    ["failed attempts", link.is_up ? null : number(link.failures)],
  ]);
}

function showJournal(journal) {
  fillTable(byId("readers"), Object.entries(journal.pending).map(([name, depth]) => [name, number(depth), duration(journal.oldest_pending_s[name])]));
  fillTable(byId("lanes"), Object.entries(journal.lanes).map(([lane, { readings, segments }]) => [lane, number(readings), number(segments)]));
  fillFigures(byId("journal"), [
    ["on the card", bytes(journal.bytes_on_disk).join(" ")],
    ["write factor", journal.written_per_payload_byte === null ? null : number(journal.written_per_payload_byte, 2)],
    ["readings", `${number(journal.readings)} in ${number(journal.messages)} messages`],
    ["commits", number(journal.commits)],
    ["readings shed", journal.shed_readings ? number(journal.shed_readings) : null],
    ["readings damaged", journal.damaged_readings ? number(journal.damaged_readings) : null],
    ["losses pending", journal.pending_losses ? number(journal.pending_losses) : null],
  ]);
}

function fillTable(body, rows) {
  const makeRow = (cells) => {
    const head = make("th", "", cells[0]);
    head.scope = "row";
    return make("tr", "", head, ...cells.slice(1).map(() => make("td", "n")));
  };
  fill(body, rows, ([name]) => name, makeRow, (row, cells) => cells.slice(1).forEach((cell, i) => write(row.children[i + 1], cell)));
}

function showArchives(archives) {
  byId("archives-title").closest("section").hidden = archives === null;
  if (archives === null) return;
  const { log } = archives;
  show(byId("archives-problem"), archives.problem || archives.ship_problem || log.problem);
  fillFigures(byId("archives"), [
    ["without a receipt", number(archives.pending)],
    ["size of these", bytes(archives.pending_bytes).join(" ")],
    ["with a receipt", archives.ships ? number(archives.shipped) : null],
    ["shipped", archives.ships ? bytes(archives.shipped_bytes).join(" ") : "nowhere: no [ship] is configured"],
    ["in the device log", log.held_size === null ? number(log.size) : `${number(log.size)}, collector: ${number(log.held_size)}`],
    ["checkpoint accepted", log.checkpoint_at_ms === null ? null : clockTime(log.checkpoint_at_ms)],
    ["log begun because", log.reason || null],
  ]);
}

function showEvents(events) {
  fill(byId("events"), events.slice(-MAX_EVENTS).reverse(), JSON.stringify, makeEvent, () => {});
}

/* "link down, buffering; publisher=out problem=…": what happened, then the details. */
function makeEvent({ at_ms, level, text, times }) {
  const [what, ...details] = text.replace(LONG_HEX, "$1…").split("; ");
  const time = make("time", "", clockTime(at_ms));
  time.dateTime = new Date(at_ms).toISOString();
  const told = make("p");
  if (LEVELS[level]) {
    const mark = make("span", "level", `${level.toLowerCase()}: `);
    mark.dataset.mood = LEVELS[level];
    told.append(mark);
  }
  told.append(times > 1 ? `${what} (${number(times)} times)` : what);
  if (details.length) told.append(make("span", "details", details.join("; ")));
  return make("li", "", time, told);
}

/* Where it comes from */

function take({ status, problems }) {
  document.body.classList.toggle("is-stale", status === null);
  show(byId("problem"), problems.map((problem) => problem[0].toUpperCase() + problem.slice(1)).join(". "));
  if (status === null) {
    showState("bad", "not storing", problems.join("; "));
    return;
  }
  agentNow = status.written_at_ms;
  remember(status.devices);
  showHead(status);
  const found = problemsOf(status);
  showState(...judge(problems, found));
  showProblems(found);
  showOutlook(status);
  showDevices(status.devices);
  showLinks(status);
  showJournal(status.journal);
  showArchives(status.archives);
  showEvents(status.events);
}

function lose() {
  document.body.classList.add("is-stale");
  showState("bad", "no answer", "the agent does not respond; the values shown are old");
}

function remember(devices) {
  const present = new Set();
  for (const [name, device] of Object.entries(devices)) {
    for (const sensor of device.sensors) {
      const key = keyOf(name, sensor);
      present.add(key);
      if (typeof sensor.value === "string") continue;
      const values = history.get(key) ?? [];
      values.push(device.state === "down" ? null : Number(sensor.value));
      history.set(key, values.slice(-maxPoints));
    }
  }
  for (const key of history.keys()) if (!present.has(key)) history.delete(key);
}

async function recall() {
  const response = await ask("/history.json");
  if (!response.ok) return;
  const past = await response.json();
  maxPoints = past.max_points;
  for (const { device, values, ...names } of past.series) history.set(keyOf(device, names), values);
}

async function ask(path) {
  const response = await fetch(path, { cache: "no-store" });
  if (response.status === 401) location.reload(); // to be asked for the token
  return response;
}

/* Updates as they come; where they cannot be had, now and then. */
function watch() {
  const updates = new EventSource("/updates");
  updates.onopen = () => recall().catch(lose);
  updates.onmessage = (message) => take(JSON.parse(message.data));
  updates.onerror = () => {
    lose();
    if (updates.readyState === EventSource.CLOSED) setTimeout(poll, POLL_MS); // refused, not merely lost
  };
}

async function poll() {
  try {
    const response = await ask("/status.json");
    const answer = await response.json();
    take(response.ok ? { status: answer, problems: unready(answer) } : { status: null, problems: answer.problems });
  } catch {
    lose();
  }
  watch();
}

function unready(status) {
  if (status.storage_problem) return ["cannot write the journal"];
  return status.is_making_progress ? [] : ["the pipeline is stalled"];
}

/* On a phone the details are one tap away; on a desk they are open. */
function unfold() {
  for (const details of document.querySelectorAll("details")) details.open = WIDE.matches;
}

WIDE.addEventListener("change", unfold);
unfold();
watch();
