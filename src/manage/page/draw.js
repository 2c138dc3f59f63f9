// Draws the fabric on a canvas, with pan and zoom.
const drawing = (() => {
  const canvas = document.getElementById("fabric");
  const view = { scale: 40, x: 0, y: 0 };
  let layout = { place: new Map(), torus: null };
  let colour = "lids";
  let pending = false;
  let isFitted = false;

  const STUB = 0.32; // length of the stub of a cable that is not drawn in full
  const MIN_HOST_SCALE = 26; // pixels per unit from which hosts are drawn
  const MIN_LABEL_SCALE = 70;
  const TITLE_HEIGHT = 12; // pixels
  const LEGEND_HEIGHT = 28;
  const COLOUR_STEPS = 24;
  const DETOUR_STEPS = 8; // widths of the bands along cables with detours
  const SMALL_RADIUS = 4; // pixels below which plain switches are drawn together, as squares

  const toScreen = ([x, y]) => [(x - view.x) * view.scale, (y - view.y) * view.scale];
  const toFabric = (sx, sy) => [sx / view.scale + view.x, sy / view.scale + view.y];

  const redraw = () => {
    if (pending) return;
    pending = true;
    requestAnimationFrame(() => { pending = false; draw(); });
  };

  // From blue-grey over amber to brown: red is for faults.
  const scaleColour = (share) => {
    const stops = [[160, 174, 192], [66, 153, 225], [236, 201, 75], [192, 86, 33]];
    // Few colours, since links of one colour are drawn together.
    const rounded = Math.round(share * COLOUR_STEPS) / COLOUR_STEPS;
    const at = Math.min(0.9999, Math.max(0, rounded)) * (stops.length - 1);
    const low = Math.floor(at), part = at - low;
    const mix = stops[low].map((from, n) => Math.round(from + (stops[low + 1][n] - from) * part));
    return `rgb(${mix})`;
  };

  const loadOf = (link) => {
    const values = colour === "rates" ? link.rates : link.lids;
    return values ? Math.max(...values) : 0;
  };

  const maxLoad = () => {
    let most = 0;
    for (const link of model.links) {
      if (link.nodes.every((node) => node?.kind === "switch")) most = Math.max(most, loadOf(link));
    }
    return most;
  };

  const linkColour = (link, most) => {
    if (link.state !== "ACTIVE") return "#d53f8c";
    if (colour === "state") return "#38a169";
    return most > 0 ? scaleColour(loadOf(link) / most) : "#a0aec0";
  };

  // The lines of a link in fabric units: one, or two stubs.
  const segments = (link) => {
    const [a, b] = link.ends.map((end) => layout.place.get(end.guid));
    if (!a || !b) return [];
    const along = link.along;
    if (!along) return [[a, b]];
    const drawn = layout.torus?.drawn(along.axis) ?? along.axis;
    if (drawn < 2 && !along.wraps) return [[a, b]];
    const [low, high] = link.nodes[0].at[along.axis] < link.nodes[1].at[along.axis] ? [a, b] : [b, a];
    const stub = (from, [x, y], sign) => [from, [from[0] + sign * x * STUB, from[1] + sign * y * STUB]];
    const direction = [[1, 0], [0, -1], [0.75, 0.55]][drawn];
    // Across the dateline, the lower end leaves downwards.
    const sign = along.wraps ? -1 : 1;
    return [stub(low, direction, sign), stub(high, direction, -sign)];
  };

  const strokeSegments = (context, lines) => {
    context.beginPath();
    const width = canvas.clientWidth, height = canvas.clientHeight;
    for (const [from, to] of lines) {
      const [ax, ay] = toScreen(from), [bx, by] = toScreen(to);
      if (Math.max(ax, bx) < 0 || Math.max(ay, by) < 0 || Math.min(ax, bx) > width || Math.min(ay, by) > height) continue;
      context.moveTo(ax, ay);
      context.lineTo(bx, by);
    }
    context.stroke();
  };

  const fit = () => {
    const points = [...layout.place.values()];
    if (!points.length) return;
    const xs = points.map((point) => point[0]), ys = points.map((point) => point[1]);
    const least = (values) => values.reduce((a, b) => Math.min(a, b), Infinity);
    const most = (values) => values.reduce((a, b) => Math.max(a, b), -Infinity);
    const [left, right, top, bottom] = [least(xs) - 1, most(xs) + 1, least(ys) - 1.2, most(ys) + 1];
    // Pixels above for the titles of planes, and below for the legend.
    const width = canvas.clientWidth, height = canvas.clientHeight - TITLE_HEIGHT - LEGEND_HEIGHT;
    view.scale = Math.min(width / (right - left), height / (bottom - top), 160);
    view.x = (left + right) / 2 - width / 2 / view.scale;
    view.y = (top + bottom) / 2 - (height / 2 + TITLE_HEIGHT) / view.scale;
    redraw();
  };

  const drawRings = (context) => {
    const torus = model.torus;
    if (!torus || !layout.torus) return;
    context.lineCap = "round";
    context.strokeStyle = "#fbd38d";
    context.globalAlpha = 0.5;
    context.lineWidth = Math.max(3, view.scale * 0.5);
    for (const ring of torus.broken_rings) {
      const axis = "xyz".indexOf(ring.axis);
      const end = [...ring.first];
      end[axis] = torus.radices[axis] - 1;
      const [from, to] = [ring.first, end].map((at) => layout.torus.point(at));
      if (layout.torus.drawn(axis) < 2) strokeSegments(context, [[from, to]]);
      else {
        for (let step = 0; step < torus.radices[axis]; step += 1) {
          const at = [...end];
          at[axis] = step;
          const [x, y] = toScreen(layout.torus.point(at));
          context.beginPath();
          context.arc(x, y, Math.max(3, view.scale * 0.24), 0, 7);
          context.stroke();
        }
      }
    }
    context.globalAlpha = 1;
  };

  // The line of a cable of the torus between neighbours, or two stubs.
  const cableSegments = (cable) => {
    const axis = "xyz".indexOf(cable.axis);
    const [a, b] = [cable.from, cable.to].map((at) => layout.torus.point(at));
    const drawn = layout.torus.drawn(axis);
    const direction = [[1, 0], [0, -1], [0.75, 0.55]][drawn];
    const isWhole = drawn < 2 && Math.abs(cable.from[axis] - cable.to[axis]) === 1;
    const stub = ([x, y], sign) => [[x, y], [x + sign * direction[0] * STUB, y + sign * direction[1] * STUB]];
    return isWhole ? [[a, b]] : [stub(a, 1), stub(b, -1)];
  };

  const detoursOf = (cable) => cable.detours + cable.detours_back;

  // The highest number of detours over the cables between two switches.
  const maxDetours = () => (model.torus?.detour_cables ?? []).reduce((most, cable) => Math.max(most, detoursOf(cable)), 0);

  // Bands along the cables that detours use, the wider the more they are.
  const drawDetours = (context) => {
    const most = maxDetours();
    if (!most || !layout.torus) return;
    context.lineCap = "round";
    context.strokeStyle = "#4fd1c5";
    context.globalAlpha = 0.6;
    const byWidth = new Map();
    for (const cable of model.torus.detour_cables) {
      const step = Math.ceil((detoursOf(cable) / most) * DETOUR_STEPS);
      if (!byWidth.has(step)) byWidth.set(step, []);
      byWidth.get(step).push(...cableSegments(cable));
    }
    for (const [step, lines] of byWidth) {
      context.lineWidth = Math.max(2, view.scale * (0.08 + (0.2 * step) / DETOUR_STEPS));
      strokeSegments(context, lines);
    }
    context.globalAlpha = 1;
  };

  const drawBroken = (context) => {
    context.strokeStyle = "#e53e3e";
    context.lineWidth = Math.max(1.5, view.scale * 0.06);
    context.setLineDash([4, 3]);
    for (const link of model.lost.values()) strokeSegments(context, segments(link));
    if (model.torus && layout.torus) {
      for (const cable of model.torus.missing_cables) strokeSegments(context, cableSegments(cable));
    }
    context.setLineDash([]);
  };

  const drawPath = (context) => {
    if (!model.path) return;
    context.strokeStyle = "#805ad5";
    context.lineWidth = Math.max(3, view.scale * 0.1);
    const links = model.links.filter((link) => model.path.links.has(link.key));
    for (const link of links) strokeSegments(context, segments(link));
  };

  const drawNodes = (context, width, height) => {
    const marked = new Set(managers().flatMap((node) => [node, homeOf(node)]));
    const radius = Math.min(14, Math.max(1.4, view.scale * 0.17));
    const showHosts = view.scale >= MIN_HOST_SCALE;
    context.font = "11px system-ui, sans-serif";
    context.textAlign = "left";
    const small = [];
    for (const [guid, node] of model.nodes) {
      const isSwitch = node.kind === "switch";
      if (!isSwitch && !showHosts) continue;
      const [x, y] = toScreen(layout.place.get(guid));
      if (x < -20 || y < -20 || x > width + 20 || y > height + 20) continue;
      if (radius < SMALL_RADIUS && isSwitch && !marked.has(node) && !model.path?.nodes.has(guid)) {
        small.push([x, y]);
        continue;
      }
      context.beginPath();
      context.fillStyle = marked.has(node) ? "#bee3f8" : isSwitch ? "#ebf4ff" : "#edf2f7";
      context.strokeStyle = model.path?.nodes.has(guid) ? "#805ad5" : isSwitch ? "#2b6cb0" : "#718096";
      context.lineWidth = marked.has(node) ? 2.5 : 1;
      if (isSwitch) context.arc(x, y, radius, 0, 7);
      else context.rect(x - radius * 0.45, y - radius * 0.45, radius * 0.9, radius * 0.9);
      context.fill();
      context.stroke();
      if (view.scale >= MIN_LABEL_SCALE) {
        context.fillStyle = "#4a5568";
        if (isSwitch) context.fillText(node.description, x + radius * 0.8, y - radius);
      }
    }
    context.fillStyle = "#2b6cb0";
    context.beginPath();
    for (const [x, y] of small) context.rect(x - radius, y - radius, 2 * radius, 2 * radius);
    context.fill();
    for (const guid of [model.selected, model.found]) {
      const at = guid && layout.place.get(guid);
      if (!at) continue;
      const [x, y] = toScreen(at);
      context.beginPath();
      context.strokeStyle = "#dd6b20";
      context.lineWidth = 3;
      context.arc(x, y, radius + 6, 0, 7);
      context.stroke();
    }
  };

  const homeOf = (node) => (node.kind === "switch" ? node : node.home ?? node);
  const managers = () => [...model.nodes.values()].filter((node) => node.sm);

  // A label at each SM, or at its switch while hosts are not drawn.
  const drawManagers = (context) => {
    context.font = "600 11px system-ui, sans-serif";
    context.textAlign = "left";
    for (const node of managers()) {
      const shown = view.scale < MIN_HOST_SCALE ? homeOf(node) : node;
      const [x, y] = toScreen(layout.place.get(shown.guid));
      const text = node.sm === "MASTER" ? "SM" : node.sm.toLowerCase();
      const width = context.measureText(text).width + 8;
      context.fillStyle = node.sm === "MASTER" ? "#2b6cb0" : "#718096";
      context.fillRect(x + 8, y + 4, width, 15);
      context.fillStyle = "#fff";
      context.fillText(text, x + 12, y + 15);
    }
  };

  const drawLost = (context) => {
    context.strokeStyle = "#e53e3e";
    context.fillStyle = "#fff5f5";
    context.lineWidth = 1.5;
    context.setLineDash([3, 2]);
    const points = (model.torus?.missing_switches ?? []).map((at) => layout.torus.point(at));
    for (const [guid, node] of model.lostNodes) {
      if (node.kind === "switch" && layout.place.has(guid)) points.push(layout.place.get(guid));
    }
    for (const point of points) {
      context.beginPath();
      context.arc(...toScreen(point), Math.min(14, Math.max(3, view.scale * 0.17)), 0, 7);
      context.fill();
      context.stroke();
    }
    context.setLineDash([]);
  };

  const drawTitles = (context) => {
    if (!layout.torus || layout.torus.rz === 1) return;
    context.fillStyle = "#4a5568";
    context.font = "600 12px system-ui, sans-serif";
    context.textAlign = "left";
    for (let z = 0; z < layout.torus.rz; z += 1) {
      const [left, top] = layout.torus.corner(z);
      const [x, y] = toScreen([left - 0.3, top - 0.55]);
      context.fillText(`z = ${z}`, x, y);
    }
  };

  const drawLinks = (context) => {
    const most = colour === "state" ? 0 : maxLoad();
    const showHosts = view.scale >= MIN_HOST_SCALE;
    // Links of the same colour are one path, which the canvas draws faster.
    const byColour = new Map();
    for (const link of model.links) {
      const isHost = link.nodes.some((node) => node?.kind !== "switch");
      if (isHost && !showHosts) continue;
      const ink = isHost && link.state === "ACTIVE" ? "#cbd5e0" : linkColour(link, most);
      if (!byColour.has(ink)) byColour.set(ink, []);
      byColour.get(ink).push(...segments(link));
    }
    context.lineWidth = Math.max(1, Math.min(4, view.scale * 0.05));
    for (const [ink, lines] of byColour) {
      context.strokeStyle = ink;
      strokeSegments(context, lines);
    }
  };

  const draw = () => {
    const ratio = window.devicePixelRatio || 1;
    const width = canvas.clientWidth, height = canvas.clientHeight;
    if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
      [canvas.width, canvas.height] = [Math.round(width * ratio), Math.round(height * ratio)];
    }
    const context = canvas.getContext("2d");
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, width, height);
    drawRings(context);
    drawDetours(context);
    context.lineCap = view.scale < 30 ? "butt" : "round";
    drawLinks(context);
    drawBroken(context);
    drawPath(context);
    drawLost(context);
    drawNodes(context, width, height);
    drawTitles(context);
    drawManagers(context);
  };

  const update = () => {
    const previous = layout.place;
    layout = layoutFabric(previous.size ? previous : null);
    // Lost nodes keep their places.
    for (const guid of model.lostNodes.keys()) {
      if (!layout.place.has(guid) && previous.has(guid)) layout.place.set(guid, previous.get(guid));
    }
    if (!isFitted && layout.place.size) { isFitted = true; fit(); }
    redraw();
  };

  // The node at a point of the canvas.
  const nodeAt = (sx, sy) => {
    const reach = Math.max(8, view.scale * 0.2);
    let best = null, least = reach * reach;
    for (const [guid, at] of layout.place) {
      const node = model.nodes.get(guid);
      if (!node || (node.kind !== "switch" && view.scale < MIN_HOST_SCALE)) continue;
      const [x, y] = toScreen(at);
      const distance = (x - sx) ** 2 + (y - sy) ** 2;
      if (distance < least) [best, least] = [node, distance];
    }
    return best;
  };

  const centre = (guid) => {
    const at = layout.place.get(guid);
    if (!at) return;
    view.scale = Math.max(view.scale, 60);
    view.x = at[0] - canvas.clientWidth / 2 / view.scale;
    view.y = at[1] - canvas.clientHeight / 2 / view.scale;
    redraw();
  };

  const zoom = (factor, sx, sy) => {
    const [x, y] = toFabric(sx, sy);
    view.scale = Math.min(300, Math.max(3, view.scale * factor));
    view.x = x - sx / view.scale;
    view.y = y - sy / view.scale;
    redraw();
  };

  const pan = (dx, dy) => { view.x -= dx / view.scale; view.y -= dy / view.scale; redraw(); };
  const setColour = (name) => { colour = name; redraw(); };
  return { canvas, managers, update, redraw, fit, nodeAt, centre, zoom, pan, setColour, maxLoad, maxDetours };
})();
