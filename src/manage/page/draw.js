// Draws the fabric on a canvas, with pan and zoom.
const drawing = (() => {
  const canvas = document.getElementById("fabric");
  const view = { scale: 40, x: 0, y: 0 };
  let layout = { place: new Map(), torus: null };
  let colour = "lids";
  let pending = false;
  let isFitted = false;
  let isMoved = false; // the reader has chosen another part than the whole fabric

  const STUB = 0.32; // length of the stub of a cable that is not drawn in full
  const MIN_HOST_SCALE = 26; // pixels per unit from which hosts are drawn
  const MIN_LABEL_SCALE = 70;
  const TITLE_HEIGHT = 12; // pixels
  const TITLE_WIDTH = 40;
  const LEGEND_HEIGHT = 44;
  const DETOUR_STEPS = 8; // widths of the bands along cables with detours
  const ROW_TITLE_HEIGHT = 34; // pixels above the switches of a row
  const MIN_AXIS_SCALE = 14; // pixels per unit from which axes have numbers
  const MAX_BUNDLE = 6; // parallel links up to which a bundle gets thicker
  const LINK_REACH = 8; // pixels between a click and the link that it means
  const NEIGHBOURHOOD = 2.5; // units around the parts of an incident
  const SMALL_RADIUS = 4; // pixels below which plain switches are drawn together, as squares

  const toScreen = ([x, y]) => [(x - view.x) * view.scale, (y - view.y) * view.scale];
  const toFabric = (sx, sy) => [sx / view.scale + view.x, sy / view.scale + view.y];

  const redraw = () => {
    if (pending) return;
    pending = true;
    requestAnimationFrame(() => { pending = false; draw(); });
  };

  const loadOf = (link) => {
    if (traffic.parse(colour)) return traffic.loadOf(link);
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
    if (link.state !== "ACTIVE") return palette.get("warn");
    if (colour === "state") return palette.get("up");
    return palette.load(most > 0 ? loadOf(link) / most : 0);
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
    isMoved = false;
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
    context.strokeStyle = palette.get("ring");
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
    context.strokeStyle = palette.get("detour");
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
    context.strokeStyle = palette.get("fault");
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
    context.strokeStyle = palette.get("path");
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
      context.fillStyle = palette.get(marked.has(node) ? "node-marked" : isSwitch ? "node" : "host");
      context.strokeStyle = palette.get(model.path?.nodes.has(guid) ? "path" : isSwitch ? "accent" : "dim");
      context.lineWidth = marked.has(node) ? 2.5 : 1;
      if (isSwitch) context.arc(x, y, radius, 0, 7);
      else context.rect(x - radius * 0.45, y - radius * 0.45, radius * 0.9, radius * 0.9);
      context.fill();
      context.stroke();
      if (view.scale >= MIN_LABEL_SCALE) {
        context.fillStyle = palette.get("ink");
        if (isSwitch) context.fillText(node.description, x + radius * 0.8, y - radius);
      }
    }
    context.fillStyle = palette.get("accent");
    context.beginPath();
    for (const [x, y] of small) context.rect(x - radius, y - radius, 2 * radius, 2 * radius);
    context.fill();
    for (const guid of [model.selected, model.found]) {
      const at = guid && layout.place.get(guid);
      if (!at) continue;
      const [x, y] = toScreen(at);
      context.beginPath();
      context.strokeStyle = palette.get("ink");
      context.lineWidth = 3;
      context.arc(x, y, radius + 6, 0, 7);
      context.stroke();
    }
  };

  const homeOf = (node) => (node.kind === "switch" ? node : node.home ?? node);
  const managers = () => [...model.nodes.values()].filter((node) => node.sm);

  // The boxes of the titles and numbers of planes on the screen: left, top, right and bottom.
  const titleBoxes = () => {
    const { torus } = layout;
    if (!torus) return [];
    const boxes = [];
    for (let z = 0; z < torus.rz; z += 1) {
      const [left, top] = torus.corner(z);
      const [x, y] = toScreen([left - 0.3, top - 0.55]);
      if (torus.rz > 1) boxes.push([x, y - TITLE_HEIGHT, x + TITLE_WIDTH, y + 3]);
      for (let at = 0; at < torus.rx && view.scale >= MIN_AXIS_SCALE; at += 1) {
        const [middle, base] = toScreen([left + at, top + torus.ry - 0.38]);
        boxes.push([middle - 6, base - 10, middle + 6, base + 2]);
      }
    }
    return boxes;
  };

  // The labels of the SMs: text, node, and the box on the screen. While hosts are not drawn, they are at
  // their switches.
  const labels = (context) => {
    context.font = "600 11px system-ui, sans-serif";
    const titles = titleBoxes();
    return managers().map((node) => {
      const shown = view.scale < MIN_HOST_SCALE ? homeOf(node) : node;
      const text = node.sm === "MASTER" ? "SM" : node.sm.toLowerCase();
      const width = context.measureText(text).width + 8;
      const [x, y] = labelPlace(toScreen(layout.place.get(shown.guid)), width, titles);
      return { node, text, box: [x, y, width, LABEL_HEIGHT] };
    });
  };

  const drawManagers = (context) => {
    for (const { node, text, box } of labels(context)) {
      context.textAlign = "left";
      context.fillStyle = palette.get(node.sm === "MASTER" ? "accent" : "dim");
      context.fillRect(...box);
      context.fillStyle = palette.get("surface");
      context.fillText(text, box[0] + 4, box[1] + 11);
    }
  };

  const labelPlaces = () => labels(canvas.getContext("2d")).map(({ box }) => box);

  const drawLost = (context) => {
    context.strokeStyle = palette.get("fault");
    context.fillStyle = palette.get("fault-soft");
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

  // The rows of a layered fabric, from the switches with hosts upwards.
  const drawRows = (context) => {
    context.fillStyle = palette.get("dim");
    context.font = "600 12px system-ui, sans-serif";
    context.textAlign = "left";
    for (const [height, text] of layout.rows ?? []) {
      context.fillText(text, 8, toScreen([0, height])[1] - ROW_TITLE_HEIGHT);
    }
  };

  // Coordinates along the axes of each plane; an arrow in a circle marks those with wraparound cables.
  const drawAxes = (context) => {
    if (!layout.torus || view.scale < MIN_AXIS_SCALE) return;
    const { rx, ry, rz, axes } = layout.torus;
    const wraps = new Set(model.links.filter((link) => link.along?.wraps).map((link) => link.along.axis));
    const name = (at) => `${"xyz"[axes[at]]}${wraps.has(axes[at]) ? " ⟲" : ""}`;
    context.fillStyle = palette.get("dim");
    context.font = "11px system-ui, sans-serif";
    for (let z = 0; z < rz; z += 1) {
      const [left, top] = layout.torus.corner(z);
      const put = (text, at, align) => { context.textAlign = align; context.fillText(text, ...toScreen(at)); };
      for (let x = 0; x < rx; x += 1) put(x, [left + x, top + ry - 0.38], "center");
      for (let y = 0; y < ry; y += 1) put(y, [left - 0.52, top + ry - 1 - y + 0.06], "right");
      if (rx > 1) put(name(0), [left + rx - 0.55, top + ry - 0.38], "left");
      if (ry > 1) put(name(1), [left - 0.52, top - 0.5], "right");
    }
    context.textAlign = "left";
  };

  const drawTitles = (context) => {
    drawRows(context);
    drawAxes(context);
    if (!layout.torus || layout.torus.rz === 1) return;
    context.fillStyle = palette.get("ink");
    context.font = "600 12px system-ui, sans-serif";
    context.textAlign = "left";
    for (let z = 0; z < layout.torus.rz; z += 1) {
      const [left, top] = layout.torus.corner(z);
      const [x, y] = toScreen([left - 0.3, top - 0.55]);
      context.fillText(`z = ${z}`, x, y);
    }
  };

  // Parallel links between two switches are one line, the thicker the more they are.
  const isBundled = (link) => !link.along && link.nodes.every((node) => node?.kind === "switch");

  const bundleOf = (link) => `${link.ends[0].guid}-${link.ends[1].guid}`;

  const bundles = () => {
    const counts = new Map();
    for (const link of model.links) {
      if (isBundled(link)) counts.set(bundleOf(link), (counts.get(bundleOf(link)) ?? 0) + 1);
    }
    return counts;
  };

  const drawLinks = (context) => {
    const most = colour === "state" ? 0 : maxLoad();
    const showHosts = view.scale >= MIN_HOST_SCALE;
    // Links of the same colour are one path, which the canvas draws faster.
    const byColour = new Map();
    const bundled = bundles();
    for (const link of model.links) {
      const isHost = link.nodes.some((node) => node?.kind !== "switch");
      if (isHost && !showHosts) continue;
      const ink = isHost && link.state === "ACTIVE" ? palette.get("line") : linkColour(link, most);
      const key = `${ink} ${Math.min(MAX_BUNDLE, bundled.get(bundleOf(link)) ?? 1)}`;
      if (!byColour.has(key)) byColour.set(key, { ink, count: Number(key.split(" ").at(-1)), lines: [] });
      byColour.get(key).lines.push(...segments(link));
    }
    const width = Math.max(1, Math.min(4, view.scale * 0.05));
    for (const { ink, count, lines } of byColour.values()) {
      context.strokeStyle = ink;
      context.lineWidth = width * (1 + 0.6 * (count - 1));
      strokeSegments(context, lines);
    }
  };

  // The parts of open incidents: a ring around nodes, a band along cables.
  const drawIncidents = (context) => {
    context.globalAlpha = 0.55;
    for (const incident of model.incidents) {
      const { nodes, links } = partsOf(incident);
      context.strokeStyle = palette.get(incident.severity === "critical" ? "fault" : "warn");
      context.lineWidth = Math.max(4, view.scale * 0.14);
      for (const link of links) strokeSegments(context, segments(link));
      for (const guid of nodes) {
        const place = layout.place.get(guid);
        if (!place) continue;
        context.beginPath();
        context.arc(...toScreen(place), Math.max(6, view.scale * 0.28), 0, 7);
        context.stroke();
      }
    }
    context.globalAlpha = 1;
  };

  const drawSelectedLink = (context) => {
    if (!model.selectedLink) return;
    context.strokeStyle = palette.get("ink");
    context.lineWidth = Math.max(3, view.scale * 0.1);
    strokeSegments(context, segments(model.selectedLink));
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
    drawIncidents(context);
    drawBroken(context);
    drawPath(context);
    drawSelectedLink(context);
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

  // The link whose line is nearest to a point of the canvas; of lost links, too.
  const linkAt = (sx, sy) => {
    let best = null, least = LINK_REACH;
    const showHosts = view.scale >= MIN_HOST_SCALE;
    for (const link of [...model.lost.values(), ...model.links]) {
      if (!showHosts && link.nodes.some((node) => node?.kind !== "switch")) continue;
      for (const [from, to] of segments(link)) {
        const [ax, ay] = toScreen(from), [bx, by] = toScreen(to);
        const length = (bx - ax) ** 2 + (by - ay) ** 2 || 1;
        const share = Math.min(1, Math.max(0, ((sx - ax) * (bx - ax) + (sy - ay) * (by - ay)) / length));
        const distance = Math.hypot(ax + share * (bx - ax) - sx, ay + share * (by - ay) - sy);
        if (distance < least) [best, least] = [link, distance];
      }
    }
    return best;
  };

  // Shows these nodes with their neighbourhood, or the whole fabric if none has a place.
  const zoomTo = (guids) => {
    const points = guids.map((guid) => layout.place.get(guid)).filter(Boolean);
    if (!points.length) { fit(); return; }
    isMoved = true;
    const middle = (values) => (Math.min(...values) + Math.max(...values)) / 2;
    const extent = (values) => Math.max(...values) - Math.min(...values) + 2 * NEIGHBOURHOOD;
    const [xs, ys] = [points.map((point) => point[0]), points.map((point) => point[1])];
    const scale = Math.min(canvas.clientWidth / extent(xs), canvas.clientHeight / extent(ys));
    view.scale = Math.min(160, Math.max(3, scale));
    view.x = middle(xs) - canvas.clientWidth / 2 / view.scale;
    view.y = middle(ys) - canvas.clientHeight / 2 / view.scale;
    redraw();
  };

  const centre = (guid) => {
    const at = layout.place.get(guid);
    if (!at) return;
    isMoved = true;
    view.scale = Math.max(view.scale, 60);
    view.x = at[0] - canvas.clientWidth / 2 / view.scale;
    view.y = at[1] - canvas.clientHeight / 2 / view.scale;
    redraw();
  };

  const zoom = (factor, sx, sy) => {
    isMoved = true;
    const [x, y] = toFabric(sx, sy);
    view.scale = Math.min(300, Math.max(3, view.scale * factor));
    view.x = x - sx / view.scale;
    view.y = y - sy / view.scale;
    redraw();
  };

  const zoomMiddle = (factor) => zoom(factor, canvas.clientWidth / 2, canvas.clientHeight / 2);
  const pan = (dx, dy) => { isMoved = true; view.x -= dx / view.scale; view.y -= dy / view.scale; redraw(); };
  // Messages above the drawing change its size.
  new ResizeObserver(() => { if (isMoved) redraw(); else fit(); }).observe(canvas);
  const middleOf = (link) => {
    const [from, to] = segments(link)[0].map(toScreen);
    return [(from[0] + to[0]) / 2, (from[1] + to[1]) / 2];
  };
  const rows = () => layout.rows ?? [];
  const setColour = (name) => { colour = name; redraw(); };
  return { canvas, managers, update, redraw, fit, nodeAt, linkAt, zoomTo, centre, zoom, zoomMiddle, pan, view: () => ({ ...view }), rows, middleOf, setColour, maxLoad, maxDetours,
    labelPlaces, titleBoxes };
})();
