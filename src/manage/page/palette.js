// Colours of the drawing: those of the style sheet, which follow the reader's light or dark setting.
const palette = (() => {
  const NAMES = ["ink", "dim", "line", "surface", "idle", "busy", "fault", "fault-soft", "warn", "ring", "accent", "node",
    "node-marked", "host", "path", "detour", "up"];
  const STEPS = 24; // few colours, since links of one colour are drawn together
  let colours = {};
  const read = () => {
    const style = getComputedStyle(document.documentElement);
    colours = Object.fromEntries(NAMES.map((name) => [name, style.getPropertyValue(`--${name}`).trim()]));
  };
  read();
  const get = (name) => colours[name];
  const parts = (colour) => [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16));
  // From idle to busy, both neutral: orange and red are for faults.
  const load = (share) => {
    const part = Math.round(Math.min(1, Math.max(0, share)) * STEPS) / STEPS;
    const [low, high] = [parts(get("idle")), parts(get("busy"))];
    return `rgb(${low.map((from, at) => Math.round(from + (high[at] - from) * part))})`;
  };
  const follow = (changed) => {
    window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { read(); changed(); });
  };
  return { get, load, follow };
})();
