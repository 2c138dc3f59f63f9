// The fabric as the page knows it.
const model = {
  nodes: new Map(),
  links: [],
  // Links that were there before and are missing now, by key.
  lost: new Map(),
  // Nodes that were there before and are missing now, by GUID.
  lostNodes: new Map(),
  // Places on the torus of lost switches, by GUID.
  lostPlaces: new Map(),
  torus: null,
  status: null,
  // GUIDs and links of the shown path.
  path: null,
  selected: null,
  selectedLink: null,
  // Open incidents, the one to repair first first.
  incidents: [],
  found: null,
};

const linkKey = (link) => link.ends.map((end) => `${end.guid}/${end.port}`).sort().join("-");

// A node's place on the torus, or null.
const placeOf = (torus) => {
  const places = new Map();
  for (const node of torus?.switches ?? []) places.set(node.guid, node.at);
  return (guid) => places.get(guid) ?? null;
};

// Axis of a link between two places, and whether it crosses the dateline; null for other links.
const axisOf = (a, b, radices) => {
  if (!a || !b) return null;
  const axes = [0, 1, 2].filter((axis) => a[axis] !== b[axis]);
  if (axes.length !== 1) return null;
  const axis = axes[0];
  const distance = Math.abs(a[axis] - b[axis]);
  if (distance === 1) return { axis, wraps: false };
  return distance === radices[axis] - 1 ? { axis, wraps: true } : null;
};

// Places on the torus of switches that were lost before this page was loaded, by GUID: the position without
// a switch that lies beside all their former neighbours.
const lostPlaces = () => {
  const neighbours = new Map();
  for (const { ends } of model.lost.values()) {
    for (const [one, other] of [ends, [...ends].reverse()]) {
      const at = model.nodes.get(other.guid)?.at;
      if (model.nodes.has(one.guid) || !at) continue;
      if (!neighbours.has(one.guid)) neighbours.set(one.guid, []);
      neighbours.get(one.guid).push(at);
    }
  }
  const { missing_switches: free, radices } = model.torus;
  const places = new Map();
  for (const [guid, beside] of neighbours) {
    const at = free.find((place) => beside.every((other) => axisOf(other, place, radices)));
    if (at) places.set(guid, at);
  }
  return places;
};

// Gives lost links the places of switches that were lost before this page was loaded.
const placeLost = () => {
  model.lostPlaces = model.torus ? lostPlaces() : new Map();
  for (const link of model.lost.values()) {
    if (link.along || !link.ends.some((end) => model.lostPlaces.has(end.guid))) continue;
    link.nodes = link.ends.map((end) => model.nodes.get(end.guid) ?? { kind: "switch", at: model.lostPlaces.get(end.guid) });
    link.along = axisOf(link.nodes[0].at, link.nodes[1].at, model.torus.radices);
  }
};

// Links that were lost before this page was loaded.
const takeMissing = (missing) => {
  for (const { ends } of missing) {
    const link = { ends, state: "lost", nodes: ends.map((end) => model.nodes.get(end.guid)) };
    link.key = linkKey(link);
    if (model.lost.has(link.key)) continue;
    const [a, b] = link.nodes;
    link.along = model.torus && a && b ? axisOf(a.at, b.at, model.torus.radices) : null;
    model.lost.set(link.key, link);
  }
};

// Takes the replies of /v1/nodes, /v1/links and /v1/torus. What has gone since the last call is kept as
// lost until it is back.
const updateFabric = (nodes, { links, missing }, torus) => {
  const before = { nodes: model.nodes, links: model.links };
  const place = placeOf(torus ?? model.torus);
  model.torus = torus;
  model.nodes = new Map(nodes.map((node) => [node.guid, node]));
  for (const node of nodes) {
    node.at = torus ? place(node.guid) : null;
    node.hosts = [];
    node.home = null; // the switch of a host
    node.switches = new Set();
  }
  model.links = links;
  const present = new Set();
  for (const link of links) {
    link.key = linkKey(link);
    present.add(link.key);
    const [a, b] = link.ends.map((end) => model.nodes.get(end.guid));
    link.nodes = [a, b];
    link.along = torus && a && b ? axisOf(a.at, b.at, torus.radices) : null;
    if (!a || !b) continue;
    for (const [one, other] of [[a, b], [b, a]]) {
      if (one.kind !== "switch") continue;
      if (other.kind === "switch") one.switches.add(other.guid);
      else if (!one.hosts.includes(other)) { one.hosts.push(other); other.home ??= one; }
    }
  }
  for (const link of before.links) if (!present.has(link.key)) model.lost.set(link.key, link);
  takeMissing(missing ?? []);
  for (const key of present) model.lost.delete(key);
  placeLost();
  for (const [guid, node] of before.nodes) if (!model.nodes.has(guid)) model.lostNodes.set(guid, node);
  for (const guid of model.nodes.keys()) model.lostNodes.delete(guid);
};

const counts = () => {
  const kinds = { switch: 0, ca: 0, router: 0 };
  for (const node of model.nodes.values()) if (node.kind in kinds) kinds[node.kind] += 1;
  return { switches: kinds.switch, hosts: kinds.ca + kinds.router, links: model.links.length,
    lost: model.lost.size };
};

// Nodes that a text means, the best first, at most `limit`.
const findNodes = (text, limit) => {
  const wanted = text.trim().toLowerCase();
  if (!wanted) return [];
  const rank = (node) => {
    const name = node.description.toLowerCase();
    if (name === wanted || node.guid === wanted || node.lids.some((lid) => String(lid) === wanted)) return 0;
    if (name.startsWith(wanted)) return 1;
    return name.includes(wanted) || node.guid.includes(wanted) ? 2 : -1;
  };
  const found = [];
  for (const node of model.nodes.values()) {
    const at = rank(node);
    if (at >= 0) found.push([at, node]);
  }
  found.sort((a, b) => a[0] - b[0] || a[1].description.localeCompare(b[1].description, "en", { numeric: true }));
  return found.slice(0, limit).map(([, node]) => node);
};
