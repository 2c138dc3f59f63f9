// Mouse, touch and keyboard.
const PAN_STEP = 60; // pixels of an arrow key
const ZOOM_STEP = 1.25;
const CLICK_REACH = 3; // pixels that a click may move

const showTip = (point) => {
  const tip = byId("tip");
  const node = drawing.nodeAt(...point);
  const link = node ? null : drawing.linkAt(...point);
  tip.hidden = !node && !link;
  if (node) {
    tip.textContent = `${node.description}${node.at ? `  (${node.at.join(",")})` : ""}\nLID ${node.lids.join(", ")}  ${node.guid}`;
  } else if (link) {
    tip.textContent = `${link.ends.map(endText).join(" – ")}\n${link.link ? `${link.link.width} ${link.link.speed}, ` : ""}${link.state}`;
  }
  [tip.style.left, tip.style.top] = [`${point[0] + 14}px`, `${point[1] + 10}px`];
};

const selectAt = (point) => {
  const node = drawing.nodeAt(...point);
  if (node) { select(node); return; }
  const link = drawing.linkAt(...point);
  if (link) selectLink(link);
};

// One pointer pans and clicks, two zoom.
const usePointers = () => {
  const { canvas } = drawing;
  const pointers = new Map();
  let moved = false;
  const at = (event) => { const box = canvas.getBoundingClientRect(); return [event.clientX - box.left, event.clientY - box.top]; };
  canvas.addEventListener("pointerdown", (event) => {
    canvas.setPointerCapture(event.pointerId);
    if (!pointers.size) moved = false;
    pointers.set(event.pointerId, at(event));
  });
  canvas.addEventListener("pointermove", (event) => {
    const point = at(event), before = pointers.get(event.pointerId);
    if (!before) { showTip(point); return; }
    byId("tip").hidden = true;
    const shift = [point[0] - before[0], point[1] - before[1]];
    if (pointers.size === 1) {
      if (!moved && Math.hypot(...shift) <= CLICK_REACH) return;
      drawing.pan(...shift);
    } else {
      const [other] = [...pointers].filter(([id]) => id !== event.pointerId).map(([, place]) => place);
      const distance = (place) => Math.hypot(place[0] - other[0], place[1] - other[1]) || 1;
      drawing.zoom(distance(point) / distance(before), (point[0] + other[0]) / 2, (point[1] + other[1]) / 2);
    }
    moved = true;
    pointers.set(event.pointerId, point);
  });
  const end = (event) => { pointers.delete(event.pointerId); };
  canvas.addEventListener("pointerup", (event) => {
    const isClick = pointers.size === 1 && !moved;
    end(event);
    if (isClick) selectAt(at(event));
  });
  canvas.addEventListener("pointercancel", end);
  canvas.addEventListener("pointerleave", () => { byId("tip").hidden = true; });
  canvas.addEventListener("wheel", (event) => {
    event.preventDefault();
    drawing.zoom(Math.exp(-event.deltaY * 0.0015), ...at(event));
  }, { passive: false });
};

// Keys while no input has the focus; the page lists them below the drawing.
const KEYS = {
  ArrowLeft: () => drawing.pan(PAN_STEP, 0), ArrowRight: () => drawing.pan(-PAN_STEP, 0),
  ArrowUp: () => drawing.pan(0, PAN_STEP), ArrowDown: () => drawing.pan(0, -PAN_STEP),
  "+": () => drawing.zoomMiddle(ZOOM_STEP), "=": () => drawing.zoomMiddle(ZOOM_STEP),
  "-": () => drawing.zoomMiddle(1 / ZOOM_STEP), 0: () => drawing.fit(),
  "/": () => byId("find").focus(), i: () => byId("worst").click(),
  Escape: () => { clearPath(); clearSelection(); },
};

const useKeys = () => {
  window.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const isTyping = ["INPUT", "SELECT", "TEXTAREA"].includes(event.target.tagName);
    const isInList = event.key.startsWith("Arrow") && event.target.closest?.("aside");
    const act = KEYS[event.key];
    if (isTyping || isInList || !act) return;
    event.preventDefault();
    act();
  });
};
