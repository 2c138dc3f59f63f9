// The texts beside the drawing. Texts of the fabric are set as text, never as HTML.
const byId = (id) => document.getElementById(id);

const element = (tag, text, className) => {
  const made = document.createElement(tag);
  if (text !== undefined) made.textContent = text;
  if (className) made.className = className;
  return made;
};

const counted = (count, one, many) => `${count} ${count === 1 ? one : many}`;

const table = (headings, rows) => {
  const made = element("table");
  if (headings) {
    const head = made.insertRow();
    headings.forEach((text) => head.append(element("th", text)));
  }
  for (const cells of rows) {
    const row = made.insertRow();
    cells.forEach((text) => { row.insertCell().textContent = text ?? ""; });
  }
  return made;
};

const octets = (rate) => {
  const units = ["B/s", "kB/s", "MB/s", "GB/s"];
  let at = 0;
  while (rate >= 1000 && at < units.length - 1) { rate /= 1000; at += 1; }
  return `${rate.toFixed(rate < 10 && at ? 1 : 0)} ${units[at]}`;
};

const showStatus = (status) => {
  const up = status.sm.state === "MASTER" && status.sm.subnet_up;
  const { critical, warning } = status.incidents;
  const degraded = critical + warning ? `, degraded (${critical + warning})` : "";
  byId("role").textContent = `${status.sm.state}${status.sm.state !== "MASTER" || up ? "" : ", subnet not configured"}${degraded}`;
  const works = up ? (critical ? "bad" : warning ? "warning" : "good") : "bad";
  byId("role").className = `badge ${status.sm.state === "STANDBY" ? "" : works}`;
  byId("engine").textContent = status.routing.in_use ?? `no routes (${status.routing.requested} asked for)`;
  const repair = status.routing.repair;
  byId("repair").hidden = !repair;
  byId("repair").textContent = repair
    ? [`Routed around damage: ${repair.summary}`, ...repair.restored_by].join("\n") : "";
  const others = status.other_sms.map((sm) => `${sm.state} ${sm.port_guid} (priority ${sm.priority})`);
  byId("standbys").textContent = others.length ? `other SMs: ${others.join(", ")}` : "no other SM";
  const messages = status.refused?.messages ?? [];
  byId("alarm").hidden = !status.refused;
  byId("alarm").textContent = status.refused
    ? ["No valid plan: the devices keep their tables.", ...messages.map((message) => message.text)].join("\n") : "";
};

// Congestion control; the section is hidden while this SM does not configure it.
const showCongestion = (control) => {
  byId("congestion-section").hidden = !control;
  if (!control) return;
  const waiting = control.devices - control.configured - control.unsupported - control.failed;
  const parts = [`${control.configured} of ${counted(control.devices, "device", "devices")} configured`];
  if (control.unsupported) parts.push(`${control.unsupported} without it`);
  if (waiting > 0) parts.push(`${waiting} ${control.busy ? "in progress" : "waiting"}`);
  const text = element("div", `${parts.join(", ")}; ${counted(control.sets, "Set", "Sets")}`);
  const failed = control.failed ? [element("div", `${control.failed} failed`, "bad")] : [];
  byId("congestion").replaceChildren(text, ...failed);
};

const showCounts = () => {
  const { switches, hosts, links, lost } = counts();
  byId("counts").textContent = `${counted(switches, "switch", "switches")}, ${counted(hosts, "host", "hosts")}, ${counted(links, "link", "links")}${lost ? `, ${lost} lost` : ""}`;
};

const endText = (end) => `${end.description} port ${end.port}`;

const MAX_SHOWN_INCIDENTS = 50;

let shownIncidents = null;

// Open incidents: headline and repair, the one to repair first first. A click shows the place.
const showIncidents = (open) => {
  const text = JSON.stringify(open);
  if (text === shownIncidents) return;
  shownIncidents = text;
  model.incidents = open;
  drawing.redraw();
  const [worst] = open;
  byId("worst").hidden = !worst;
  byId("worst").textContent = worst ? `${worst.headline} — ${worst.repair}` : "";
  byId("worst").className = worst?.severity === "critical" ? "bad-strip" : "warning-strip";
  const rows = open.slice(0, MAX_SHOWN_INCIDENTS).map((incident) => {
    const row = element("details");
    const summary = element("summary", incident.headline, incident.severity === "critical" ? "bad" : "warn");
    summary.addEventListener("click", () => goTo(incident));
    row.append(summary, element("div", incident.repair));
    const opened = incident.opened === null ? "before the recording" : new Date(incident.opened).toLocaleString();
    row.append(element("div", `since ${opened}`, "dim"));
    for (const line of [...incident.evidence, ...incident.risks]) row.append(element("div", line, "dim"));
    return row;
  });
  if (open.length > rows.length) rows.push(element("div", `and ${open.length - rows.length} more`));
  byId("incidents").replaceChildren(...(rows.length ? rows : [element("span", "none: the fabric is well", "good")]));
};

const showFaults = (quarantine) => {
  const lines = [];
  for (const link of model.lost.values()) lines.push(`lost link ${link.ends.map(endText).join(" – ")}`);
  for (const node of model.lostNodes.values()) lines.push(`lost ${node.kind} ${node.description}`);
  for (const at of model.torus?.missing_switches ?? []) lines.push(`no switch at ${at.join(",")}`);
  for (const cable of model.torus?.missing_cables ?? []) {
    lines.push(`no ${cable.axis} cable ${cable.from.join(",")} – ${cable.to.join(",")}`);
  }
  for (const ring of model.torus?.broken_rings ?? []) {
    lines.push(`${ring.axis} ring from ${ring.first.join(",")} is interrupted`);
  }
  for (const link of quarantine?.links ?? []) lines.push(`quarantined ${(link.ends ?? []).map(endText).join(" – ")}`);
  for (const fault of model.status?.device_faults ?? []) lines.push(fault.text);
  const box = byId("faults");
  box.replaceChildren(...(lines.length ? lines.slice(0, 50).map((line) => element("div", line, "dim")) : [document.createTextNode("none")]));
  if (lines.length > 50) box.append(element("div", `and ${lines.length - 50} more`));
};

const showSelected = async (node) => {
  const box = byId("selected");
  if (!node) return;
  box.replaceChildren(table(null, [
    ["Node", node.description], ["GUID", node.guid], ["Kind", node.kind],
    ["LIDs", node.lids.join(", ")], ["Place", node.at?.join(",")],
  ].filter((row) => row[1])));
  if (recording.isShown()) return;
  const { ports } = await api.get(`/v1/ports?node=${encodeURIComponent(node.guid)}`);
  const linked = ports.filter((port) => port.port > 0 || port.peer);
  box.append(table(["Port", "State", "Link", "To", "Sends"], linked.map((port) => [
    port.port, port.state, port.link ? `${port.link.width} ${port.link.speed}` : "",
    port.peer ? `${port.peer.description} ${port.peer.port}` : "",
    port.counters?.rates ? octets(port.counters.rates.transmit_bytes_per_second) : "",
  ])));
  showVports(box, ports);
};

// The virtual ports of the ports of an adapter.
const showVports = (box, ports) => {
  const vports = ports.flatMap((port) => port.virtual_ports?.vports ?? []);
  if (!vports.length) return;
  box.append(table(["Vport", "Description", "GUID", "State", "LID", "Failure"], vports.slice(0, 64).map((vport) => [
    vport.index, vport.description, vport.guid, vport.state, vport.lid ?? "", vport.failure ?? "",
  ])));
  if (vports.length > 64) box.append(element("div", `and ${vports.length - 64} more`));
};

// A button that does an action at the second click.
const actionButton = (text, path, body) => {
  const button = element("button", text);
  button.type = "button";
  let isArmed = false;
  button.addEventListener("click", async () => {
    if (!isArmed) { isArmed = true; button.textContent = `${text}: click again`; return; }
    button.disabled = true;
    try {
      await api.post(path, body);
      button.textContent = `${text}: requested`;
    } catch (error) { button.textContent = error.message; }
  });
  return button;
};

const countersOf = (port) => {
  if (!port?.counters) return [["Counters", "not read: perfmgr is off"]];
  const { errors, rates } = port.counters;
  const found = Object.entries(errors).filter(([, count]) => count > 0).map(([name, count]) => `${name} ${count}`);
  const sends = rates ? [["Sends", octets(rates.transmit_bytes_per_second)]] : [];
  return [...sends, ["Errors", found.length ? found.join(", ") : "none"]];
};

// A link with the state and the counters of both ends.
const showSelectedLink = async (link) => {
  const box = byId("selected");
  const isLost = model.lost.has(link.key);
  const state = isLost ? "lost" : link.state;
  box.replaceChildren(element("div", link.ends.map(endText).join(" – "), isLost ? "bad" : undefined), table(null, [
    ["State", state], ["Link", link.link ? `${link.link.width} ${link.link.speed}` : null],
    ["LIDs", link.lids?.join(" and ")],
  ].filter((row) => row[1])));
  if (recording.isShown()) return;
  for (const end of link.ends) {
    const reply = await api.tryGet(`/v1/ports?node=${encodeURIComponent(end.guid)}&port=${end.port}`);
    if (model.selectedLink !== link) return;
    const port = reply?.ports.find((found) => found.port === end.port);
    box.append(element("h3", endText(end)), table(null, [
      ["State", port ? `${port.state}, ${port.physical_state}` : "not in the fabric"], ...countersOf(port),
    ]));
  }
  if (!api.mayAct()) return;
  const body = { guid: link.ends[0].guid, port: link.ends[0].port };
  box.append(whatIfButton(body), " ", actionButton("Quarantine", "/v1/actions/quarantine", body), " ",
    actionButton("Release", "/v1/actions/release", body), element("div", "", "what-if"));
};

// The request for a plan without the selected link, and where its result is shown.
let whatIf = null;

// A button that plans the fabric without a link before it is pulled.
const whatIfButton = (body) => {
  const button = element("button", "What if it is pulled?");
  button.type = "button";
  button.addEventListener("click", async () => {
    const result = button.parentElement.querySelector(".what-if");
    result.textContent = "planning without it";
    result.className = "what-if dim";
    try {
      const { request } = await api.post("/v1/actions/what-if", body);
      whatIf = { request, result };
      waiting.splice(0).forEach(takeResult);
    } catch (error) { result.textContent = error.message; }
  });
  return button;
};

const MAX_WAITING = 8;
// Results that may have come before the reply to their request.
const waiting = [];

const takeResult = (event) => {
  if (event.action !== "what-if") return;
  if (event.request !== whatIf?.request) {
    waiting.push(event);
    if (waiting.length > MAX_WAITING) waiting.shift();
    return;
  }
  const text = event.text ?? event.problem;
  // Words in capitals tell of what gets worse.
  const isBad = event.event === "action_failed" || /[A-Z]{2,} [A-Z]{2,}/.test(text);
  whatIf.result.textContent = text;
  whatIf.result.className = isBad ? "what-if bad" : "what-if good";
};

// Number of searches for a path: only the reply to the last one is shown.
let pathSearches = 0;

const clearPath = () => {
  pathSearches += 1;
  model.path = null;
  byId("path-result").replaceChildren();
  drawing.redraw();
};

const showPath = async (from, to) => {
  const box = byId("path-result");
  const search = ++pathSearches;
  try {
    const route = await api.get(`/v1/routes?from=${encodeURIComponent(from)}&to=${encodeURIComponent(to)}`);
    if (search !== pathSearches) return;
    const rows = route.hops.map((hop) => [hop.description, hop.input, hop.output, hop.vl]);
    box.replaceChildren(
      element("div", `${route.from.description} (LID ${route.from.lid}) to ${route.to.description} (LID ${route.to.lid}): SL ${route.sl}, ${counted(route.hops.length, "switch", "switches")}`),
      table(["Switch", "In", "Out", "VL"], rows),
    );
    if (route.problem) box.append(element("div", route.problem, "bad"));
    model.path = pathLinks(route);
  } catch (error) {
    if (search !== pathSearches) return;
    box.replaceChildren(element("div", error.message, "bad"));
    model.path = null;
  }
  drawing.redraw();
};

// The nodes and links that a route uses: each switch by its output port, and the source's own link.
const pathLinks = (route) => {
  const ports = new Set(route.hops.map((hop) => `${hop.guid}/${hop.output}`));
  ports.add(`${route.from.guid}/${route.from.port}`);
  const used = model.links.filter((link) => link.ends.some((end) => ports.has(`${end.guid}/${end.port}`)));
  const nodes = new Set([route.from.guid, route.to.guid, ...route.hops.map((hop) => hop.guid)]);
  return { links: new Set(used.map((link) => link.key)), nodes, query: [route.from.guid, route.to.guid] };
};

const describeEvent = (event) => {
  const ends = () => event.ends.map(endText).join(" – ");
  switch (event.event) {
    case "role_changed": return [`this SM is ${event.state}`];
    case "link_lost": return [`lost ${ends()}`, "bad"];
    case "link_found": return [`found ${ends()}`, "good"];
    case "node_lost": return [`lost ${event.description}`, "bad"];
    case "node_found": return [`found ${event.description}`, "good"];
    case "link_quarantined": return [`quarantined ${ends()}: ${event.reason}`, "bad"];
    case "link_needed": return [`in use although ${event.reason}: ${ends()}`, "bad"];
    case "link_released": return [`released ${ends()}`, "good"];
    case "sweep_finished": return event.sweep === "light" && event.result === "done" ? null
      : [`${event.sweep} sweep ${event.result} in ${(event.duration_seconds * 1000).toFixed(0)} ms`];
    case "reconfigured": return [`tables ${event.result}: ${counted(event.sets, "Set", "Sets")} in ${(event.total_seconds * 1000).toFixed(0)} ms`];
    case "repair_began": case "repair_changed": return [`routed around damage: ${event.summary}`, "bad"];
    case "repair_ended": return ["no route leads around damage any more", "good"];
    case "plan_rejected": return [`no valid plan: ${event.problem}`, "bad"];
    case "incident_opened": case "incident_changed": return [`${event.severity}: ${event.headline}`, "bad"];
    case "incident_closed": return event.part_of ? null : [`over: ${event.headline}`, "good"];
    case "recording_written": return [`recording ${event.path}`];
    case "action_done": return [`${event.action}: ${event.text}`];
    case "action_failed": return [`${event.action} failed: ${event.problem}`, "bad"];
    case "trap": return [`trap ${event.number} from LID ${event.issuer}`];
    case "subscriptions_ended": return [`subscriptions of ${event.description} ended`, "bad"];
    case "congestion_configured":
      return [`congestion control of ${counted(event.devices, "device", "devices")}: ${event.failed} failed`, event.failed ? "bad" : undefined];
    case "sa_overload": return [`SA is busy for ${event.description}`, "bad"];
    case "sweep_started": case "counters_read": return null;
    default: return [event.event.replaceAll("_", " ")];
  }
};

const MAX_SHOWN_EVENTS = 100;

const showEvents = (events) => {
  const list = byId("events");
  const described = events.map((event) => [event, describeEvent(event)]).filter(([, shown]) => shown);
  for (const [event, shown] of described.slice(-MAX_SHOWN_EVENTS)) {
    const row = element("li");
    row.append(element("time", new Date(event.time).toLocaleTimeString()), element("span", shown[0], shown[1]));
    list.prepend(row);
  }
  while (list.children.length > MAX_SHOWN_EVENTS) list.lastChild.remove();
};

const showLegend = (colour) => {
  const most = drawing.maxLoad();
  const isCounted = model.links.some((link) => link.rates);
  const [idle, busy] = [palette.load(0), palette.load(1)];
  const items = { lids: [[idle, "few LIDs"], [busy, `${most} LIDs`]],
    rates: isCounted ? [[idle, "idle"], [busy, octets(most)]] : [[idle, "not read: perfmgr is off"]],
    state: [[palette.get("up"), "ACTIVE"]] }[colour] ?? traffic.legend(most, [idle, busy]);
  const all = [...items, [palette.get("warn"), "not ACTIVE, or with a warning"]];
  if (model.torus) all.push([palette.get("ring"), "broken ring"]);
  const detours = drawing.maxDetours();
  if (detours) all.push([palette.get("detour"), `up to ${counted(detours, "detour", "detours")}`]);
  byId("legend").replaceChildren(...all.map(([ink, text]) => {
    const item = element("span");
    const line = element("i");
    line.style.background = ink;
    item.append(line, text);
    return item;
  }), element("span", "red dashes: lost or missing"));
};

// Suggestions below an input; `choose` gets the node that was chosen.
const suggest = (input, list, choose) => {
  const clear = () => list.replaceChildren();
  input.addEventListener("input", () => {
    list.replaceChildren(...findNodes(input.value, 8).map((node) => {
      const item = element("li", `${node.description}  ${node.lids.slice(0, 1)}`);
      item.addEventListener("mousedown", (event) => {
        event.preventDefault();
        input.value = node.description;
        clear();
        choose?.(node);
      });
      return item;
    }));
  });
  input.addEventListener("blur", clear);
  input.addEventListener("keydown", (event) => { if (event.key === "Escape" || event.key === "Enter") clear(); });
};
