// The load of links under a pattern of traffic, as a further choice of their colour.
const traffic = (() => {
  const PATTERNS = [["uniform", "uniform"], ["shift", "shift by half"], ["hot-spot", "hot spot"], ["all-to-all", "all to all"]];
  const MODES = [["by_static", "static"], ["by_adaptive", "adaptive"]];
  let shown = null; // pattern, mode and flows by link key
  let asked = 0;

  // The pattern and mode of a colour such as "traffic/shift/by_static"; null for another colour.
  const parse = (colour) => {
    const [word, pattern, mode] = colour.split("/");
    return word === "traffic" ? { pattern, mode } : null;
  };

  const addChoices = (select) => {
    const group = document.createElement("optgroup");
    group.label = "load of traffic";
    for (const [pattern, name] of PATTERNS) {
      for (const [mode, word] of MODES) {
        const option = element("option", `${name}, ${word}`);
        option.value = `traffic/${pattern}/${mode}`;
        group.append(option);
      }
    }
    select.append(group);
  };

  // Reads the load for a colour. False if there is none, or another one was asked for since.
  const read = async (colour) => {
    const wanted = parse(colour);
    const number = ++asked;
    if (!wanted) { shown = null; return true; }
    const reply = await api.tryGet(`/v1/traffic?pattern=${wanted.pattern}`);
    if (number !== asked) return false;
    const flows = new Map();
    for (const link of reply?.links ?? []) flows.set(linkKey(link), link[wanted.mode] ?? link.by_static);
    const isStatic = wanted.mode === "by_adaptive" && reply?.busiest_adaptive === null;
    shown = { ...wanted, flows, isStatic };
    return true;
  };

  const loadOf = (link) => Math.max(...(shown?.flows.get(link.key) ?? [0]));

  const legend = (most, [idle, busy]) => {
    const words = `${most.toFixed(1)} flows`;
    return [[idle, "no flow"], [busy, shown?.isStatic ? `${words}; no switch routes adaptively` : words]];
  };

  return { addChoices, parse, read, loadOf, legend };
})();
