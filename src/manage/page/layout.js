// Places of the nodes in the plane, in units of the distance between neighbours.

const PLANE_GAP = 1.3; // between planes of equal z
const HOST_DISTANCE = 0.3; // from a host to its switch
const HOST_GAP = 0.22; // between hosts below a switch of a layer

// Axes that run to the right, upwards, and from plane to plane: two dimensions make one plane.
const drawnAxes = ([rx, ry, rz]) => {
  if (rx === 1 && ry > 1 && rz > 1) return [1, 2, 0];
  return ry === 1 && rx > 1 && rz > 1 ? [0, 2, 1] : [0, 1, 2];
};

// Planes of equal z side by side, x to the right, y upwards.
const layoutTorus = (torus) => {
  const axes = drawnAxes(torus.radices);
  const drawn = (axis) => axes.indexOf(axis);
  const [rx, ry, rz] = axes.map((axis) => torus.radices[axis]);
  const columns = Math.max(1, Math.ceil(Math.sqrt(rz * (ry + PLANE_GAP) / (rx + PLANE_GAP))));
  const corner = (z) => [(z % columns) * (rx + PLANE_GAP), Math.floor(z / columns) * (ry + PLANE_GAP)];
  const point = (at) => {
    const [x, y, z] = axes.map((axis) => at[axis]);
    const [left, top] = corner(z);
    return [left + x, top + (ry - 1 - y)];
  };
  return { point, corner, columns, drawn, rx, ry, rz, axes };
};

// Ranks of switches: those with hosts first, then by distance from them.
const ranks = (switches) => {
  const rank = new Map();
  let front = switches.filter((node) => node.hosts.length);
  if (!front.length) front = switches.slice(0, 1);
  front.forEach((node) => rank.set(node.guid, 0));
  for (let depth = 1; front.length; depth += 1) {
    const next = [];
    for (const node of front) {
      for (const guid of node.switches) {
        if (rank.has(guid) || !model.nodes.has(guid)) continue;
        rank.set(guid, depth);
        next.push(model.nodes.get(guid));
      }
    }
    front = next;
  }
  for (const node of switches) if (!rank.has(node.guid)) rank.set(node.guid, 0);
  return rank;
};

// Layers from the switches with hosts upwards. Each layer is ordered by the mean place of its neighbours.
const layoutLayers = (switches, rank) => {
  const layers = [];
  for (const node of switches) (layers[rank.get(node.guid)] ??= []).push(node);
  const widest = Math.max(...layers.map((layer) => layer.length));
  const place = new Map();
  layers.forEach((layer, depth) => {
    const mean = (node) => {
      const below = [...node.switches].map((guid) => place.get(guid)).filter(Boolean);
      return below.length ? below.reduce((sum, at) => sum + at[0], 0) / below.length : 0;
    };
    if (depth) layer.sort((a, b) => mean(a) - mean(b));
    const step = widest / layer.length;
    layer.forEach((node, at) => place.set(node.guid, [(at + 0.5) * step, -depth * Math.max(3, widest / 6)]));
  });
  return place;
};

// Springs between neighbours, repulsion between all: for irregular fabrics of moderate size.
const layoutForce = (switches) => {
  const index = new Map(switches.map((node, at) => [node.guid, at]));
  const count = switches.length;
  const side = Math.ceil(Math.sqrt(count));
  const x = Float64Array.from(switches, (_, at) => (at % side) + 0.1 * Math.sin(at));
  const y = Float64Array.from(switches, (_, at) => Math.floor(at / side) + 0.1 * Math.cos(at));
  const pairs = [];
  for (const node of switches) {
    for (const guid of node.switches) {
      const other = index.get(guid);
      if (other > index.get(node.guid)) pairs.push([index.get(node.guid), other]);
    }
  }
  // The work is bounded: each step compares all pairs.
  const steps = Math.min(200, Math.floor(2e7 / (count * count + 1)));
  for (let step = 0; step < steps; step += 1) {
    const dx = new Float64Array(count), dy = new Float64Array(count);
    for (let a = 0; a < count; a += 1) {
      for (let b = a + 1; b < count; b += 1) {
        const ex = x[a] - x[b], ey = y[a] - y[b], push = 0.6 / (ex * ex + ey * ey + 0.01);
        dx[a] += ex * push; dy[a] += ey * push; dx[b] -= ex * push; dy[b] -= ey * push;
      }
    }
    for (const [a, b] of pairs) {
      const ex = x[b] - x[a], ey = y[b] - y[a], pull = 0.25 * Math.hypot(ex, ey);
      dx[a] += ex * pull; dy[a] += ey * pull; dx[b] -= ex * pull; dy[b] -= ey * pull;
    }
    const limit = 1.2 * (1 - step / steps) + 0.02;
    for (let at = 0; at < count; at += 1) {
      const length = Math.hypot(dx[at], dy[at]) || 1, move = Math.min(limit, length);
      x[at] += dx[at] / length * move; y[at] += dy[at] / length * move;
    }
  }
  return new Map(switches.map((node, at) => [node.guid, [2 * x[at], 2 * y[at]]]));
};

// Places of a torus's or irregular fabric's hosts: around their switch.
const hostsAround = ([x, y], hosts) => hosts.map((host, at) => {
  // From the lower left on, which the stubs along z leave free.
  const angle = Math.PI * (0.75 + (hosts.length > 1 ? 2 * at / hosts.length : 0));
  return [host.guid, [x + HOST_DISTANCE * Math.cos(angle), y + HOST_DISTANCE * Math.sin(angle)]];
});

// Places of hosts in rows below their switch, whose other links go upwards.
const hostsBelow = ([x, y], hosts) => {
  const columns = Math.ceil(Math.sqrt(hosts.length)), gap = Math.min(HOST_GAP, 0.9 / columns);
  return hosts.map((host, at) => {
    const row = Math.floor(at / columns), column = at % columns - (columns - 1) / 2;
    return [host.guid, [x + column * gap, y + 1.5 * HOST_DISTANCE + row * gap]];
  });
};

// The heights of the layers, with their titles.
const rowTitles = (switches, rank, place) => {
  const rows = new Map();
  for (const node of switches) {
    const depth = rank.get(node.guid);
    if (!rows.has(depth)) rows.set(depth, { height: place.get(node.guid)[1], count: 0 });
    rows.get(depth).count += 1;
  }
  const title = (depth, count) => (depth ? `layer ${depth + 1}: ${count}` : `switches with hosts: ${count}`);
  return [...rows].map(([depth, { height, count }]) => [height, title(depth, count)]);
};

// Places of all nodes, and the geometry of the torus if there is one. Places of earlier nodes stay, so that
// a fabric that loses a part does not move.
const layoutFabric = (previous) => {
  const switches = [...model.nodes.values()].filter((node) => node.kind === "switch");
  const place = new Map();
  let torus = null;
  const rank = ranks(switches);
  const isLayered = !model.torus && new Set(rank.values()).size > 1;
  if (model.torus) {
    torus = layoutTorus(model.torus);
    for (const node of switches) if (node.at) place.set(node.guid, torus.point(node.at));
    for (const [guid, at] of model.lostPlaces) place.set(guid, torus.point(at));
    let spare = 0;
    for (const node of switches) {
      if (!node.at) place.set(node.guid, previous?.get(node.guid) ?? [spare++, torus.ry + PLANE_GAP]);
    }
  } else if (previous && switches.every((node) => previous.has(node.guid))) {
    for (const node of switches) place.set(node.guid, previous.get(node.guid));
  } else if (switches.length) {
    const found = isLayered ? layoutLayers(switches, rank) : layoutForce(switches);
    for (const [guid, at] of found) place.set(guid, at);
  }
  for (const node of switches) {
    const hosts = (isLayered ? hostsBelow : hostsAround)(place.get(node.guid), node.hosts);
    for (const [guid, at] of hosts) place.set(guid, at);
  }
  let spare = 0;
  for (const node of model.nodes.values()) {
    if (!place.has(node.guid)) place.set(node.guid, [spare++, -2]);
  }
  return { place, torus, rows: isLayered ? rowTitles(switches, rank, place) : [] };
};
