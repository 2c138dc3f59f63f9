// The time line of sweeps and reroutes, and the load of the SA.
const charts = (() => {
  const WINDOW = 10 * 60 * 1000; // milliseconds that the time line shows
  const MAX_MARKS = 4000;
  const MAX_RATES = 150;
  const marks = []; // { row, from, to, colour, text }
  const rates = []; // replies per second
  let last = null;

  const ROWS = ["sweeps", "reroutes", "faults"];
  const SWEEP_COLOURS = { heavy: "accent", focused: "path", light: "idle" };

  const mark = (row, end, seconds, colour) => {
    const to = Date.parse(end);
    marks.push({ row, from: to - seconds * 1000, to, colour });
    if (marks.length > MAX_MARKS) marks.splice(0, marks.length - MAX_MARKS);
  };

  const take = (event) => {
    switch (event.event) {
      case "sweep_finished":
        mark(0, event.time, event.duration_seconds, event.result === "failed" ? "fault" : SWEEP_COLOURS[event.sweep]);
        break;
      case "reconfigured":
        mark(1, event.time, event.total_seconds, event.result === "up" ? "up" : "warn");
        break;
      case "plan_rejected": mark(1, event.time, 0, "fault"); break;
      case "link_lost": case "node_lost": case "link_quarantined": mark(2, event.time, 0, "fault"); break;
      case "link_found": case "node_found": case "link_released": mark(2, event.time, 0, "up"); break;
      default: return;
    }
    drawTimeline();
  };

  const prepare = (canvas) => {
    const ratio = window.devicePixelRatio || 1, width = canvas.clientWidth, height = canvas.clientHeight;
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
    const context = canvas.getContext("2d");
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.font = "11px system-ui, sans-serif";
    return { context, width, height };
  };

  let pending = false;
  const drawTimeline = () => {
    if (pending) return;
    pending = true;
    requestAnimationFrame(() => { pending = false; drawNow(); });
  };

  const drawNow = () => {
    const { context, width, height } = prepare(document.getElementById("timeline"));
    const now = Date.now(), left = 64, usable = width - left - 8, top = 4, row = 20;
    const x = (time) => left + usable * (1 - (now - time) / WINDOW);
    context.fillStyle = palette.get("dim");
    ROWS.forEach((name, at) => context.fillText(name, 2, top + at * row + 13));
    for (let minutes = 0; minutes <= 10; minutes += 2) {
      const at = x(now - minutes * 60000);
      context.fillStyle = palette.get("line");
      context.fillRect(at, top, 1, row * 3);
      context.fillStyle = palette.get("dim");
      context.textAlign = minutes === 0 ? "right" : "center";
      context.fillText(minutes ? `-${minutes} min` : "now", at, height - 4);
    }
    context.textAlign = "left";
    for (const { row: line, from, to, colour } of marks) {
      if (to < now - WINDOW) continue;
      const start = Math.max(left, x(from));
      context.fillStyle = palette.get(colour);
      context.fillRect(start, top + line * row + 3, Math.max(2, x(to) - start), 12);
    }
  };

  // Takes a reply of /v1/sa.
  const takeSa = (sa, now) => {
    if (last && now > last.now) rates.push(Math.max(0, sa.replies - last.replies) / (now - last.now) * 1000);
    if (rates.length > MAX_RATES) rates.shift();
    last = { now, replies: sa.replies };
    const { context, width, height } = prepare(document.getElementById("sa-load"));
    const most = Math.max(1, ...rates), step = width / MAX_RATES;
    context.fillStyle = palette.get("idle");
    rates.forEach((rate, at) => context.fillRect(at * step, height - rate / most * (height - 12), Math.max(1, step - 0.5), height));
    context.fillStyle = palette.get("dim");
    context.fillText(`up to ${counted(Math.round(most), "reply/s", "replies/s")}`, 2, 10);
    return rates.at(-1) ?? 0;
  };
  return { take, drawTimeline, takeSa };
})();
