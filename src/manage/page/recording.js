// A recording, shown in place of the live state.
const PLAY_INTERVAL = 700; // milliseconds that each moment is shown
const MAX_RECORDING = 64 * 1024 * 1024; // octets, the limit of the daemon

const recording = (() => {
  // The reply of /v1/replay; null while the live state is shown.
  let shown = null;
  let index = 0;
  let timer = null;

  const isShown = () => shown !== null;

  const apply = (present, gone, changes, nameOf) => {
    for (const name of changes.gone) { gone.set(name, present.get(name)); present.delete(name); }
    for (const part of changes.set) { present.set(nameOf(part), part); gone.delete(nameOf(part)); }
  };

  // Nodes and links after a frame, and those that earlier frames had.
  const stateAt = (last) => {
    const nodes = new Map(), links = new Map(), goneNodes = new Map(), goneLinks = new Map();
    for (const frame of shown.frames.slice(0, last + 1)) {
      apply(nodes, goneNodes, frame.nodes, (node) => node.guid);
      apply(links, goneLinks, frame.links, linkKey);
    }
    return { nodes, links, goneNodes, goneLinks };
  };

  const forget = () => {
    Object.assign(model, { nodes: new Map(), links: [], lost: new Map(), lostNodes: new Map(), torus: null, status: null, path: null,
      selected: null, selectedLink: null, found: null });
    byId("path-result").replaceChildren();
    byId("selected").textContent = "Click on a node or a link.";
    byId("events").replaceChildren();
  };

  const timeText = (time) => (time.includes("T") ? `${time.slice(0, 10)} ${time.slice(11, 23)} UTC` : time);

  const showHead = (frame, plan) => {
    byId("role").textContent = "RECORDING";
    byId("role").className = "badge warning";
    byId("engine").textContent = plan?.result ?? "no plan in the recording yet";
    byId("standbys").textContent = frame.role ?? "";
    byId("recording-time").textContent = timeText(frame.time);
    byId("recording-place").textContent = `${index + 1} of ${shown.frames.length}`;
    const sets = Object.entries(frame.sets).map(([name, count]) => `${count} ${name}`);
    const programmed = sets.length ? ` — Sets sent: ${sets.join(", ")}` : "";
    byId("recording-event").textContent = frame.event + programmed;
    const notes = [];
    if (plan && !plan.is_as_recorded) notes.push("the plan, repeated, is not the one that was programmed: loads are those of the repeated one");
    if (shown.left_out && index === 0) notes.push(`${counted(shown.left_out, "moment is", "moments are")} left out`);
    byId("recording-note").textContent = notes.join("; ");
    byId("recording-slider").value = String(index);
    byId("recording-slider").setAttribute("aria-valuetext", timeText(frame.time));
  };

  const showRecordedEvents = (frame) => {
    const before = shown.events.filter((event) => event.time <= frame.time).slice(-MAX_SHOWN_EVENTS).reverse();
    byId("events").replaceChildren(...before.map((event) => {
      const row = element("li");
      row.append(element("time", event.time.slice(11, 19)), element("span", `${event.kind}: ${event.text}`));
      return row;
    }));
  };

  const show = (wanted) => {
    index = Math.min(shown.frames.length - 1, Math.max(0, wanted));
    const frame = shown.frames[index];
    const plan = frame.plan === null ? null : shown.plans[frame.plan];
    const { nodes, links, goneNodes, goneLinks } = stateAt(index);
    Object.assign(model, { nodes: new Map(), links: [], lost: new Map(), lostNodes: new Map() });
    updateFabric([...nodes.values()], { links: [...links.values()], missing: [...goneLinks.values()] }, plan?.torus ?? null);
    model.lostNodes = goneNodes;
    showIncidents(frame.incidents.map((incident) => ({ ...incident, evidence: [], risks: [] })));
    byId("loading").hidden = true;
    drawing.update();
    showHead(frame, plan);
    showCounts();
    showFaults(null);
    showLegend(colour);
    showRecordedEvents(frame);
  };

  const pause = () => {
    clearInterval(timer);
    timer = null;
    byId("recording-play").textContent = "Play";
  };

  const play = () => {
    if (timer) { pause(); return; }
    if (index === shown.frames.length - 1) show(0);
    byId("recording-play").textContent = "Pause";
    timer = setInterval(() => {
      show(index + 1);
      if (index === shown.frames.length - 1) pause();
    }, PLAY_INTERVAL);
  };

  // Shows the last moment of a reply of /v1/replay.
  const open = (reply) => {
    pause();
    shown = reply;
    forget();
    document.body.classList.add("recorded");
    byId("recording").hidden = false;
    byId("recording-about").textContent = `${reply.program}, ${reply.port}; ${reply.reason}`;
    byId("recording-slider").max = String(reply.frames.length - 1);
    for (const id of ["alarm", "repair", "age", "connection"]) byId(id).hidden = true;
    document.body.classList.remove("stale");
    show(reply.frames.length - 1);
  };

  // Returns to the live state.
  const close = () => {
    pause();
    shown = null;
    forget();
    document.body.classList.remove("recorded");
    byId("recording").hidden = true;
    showLive();
  };

  const report = (text) => {
    byId("recording-problem").hidden = !text;
    byId("recording-problem").textContent = text;
  };

  // Lets the daemon read a recording: the bytes of a file, or those of its own recorder if there are none.
  const load = async (bytes) => {
    report("reading the recording");
    try {
      open(await api.upload("/v1/replay", bytes));
      report("");
    } catch (error) { report(`The recording is not shown: ${error.message}`); }
  };

  const loadFile = (file) => {
    if (!file) return;
    if (file.size > MAX_RECORDING) { report(`${file.name} has more than ${MAX_RECORDING} octets`); return; }
    load(file);
  };

  const use = () => {
    byId("recording-own").hidden = byId("recording-load").hidden = !api.mayAct();
    byId("recording-own").addEventListener("click", () => load(new Blob()));
    byId("recording-file").addEventListener("change", (event) => { loadFile(event.target.files[0]); event.target.value = ""; });
    byId("recording-slider").addEventListener("input", (event) => { pause(); show(Number(event.target.value)); });
    byId("recording-back").addEventListener("click", () => { pause(); show(index - 1); });
    byId("recording-next").addEventListener("click", () => { pause(); show(index + 1); });
    byId("recording-play").addEventListener("click", play);
    byId("recording-close").addEventListener("click", close);
    window.addEventListener("dragover", (event) => event.preventDefault());
    window.addEventListener("drop", (event) => { event.preventDefault(); loadFile(event.dataTransfer.files[0]); });
  };

  // The recording that this document contains, if it is a file made by torus-sm replay.
  const embedded = () => {
    const text = byId("recorded")?.textContent;
    return text ? JSON.parse(text) : null;
  };

  return { isShown, use, open, close, load, embedded, show, frames: () => shown?.frames ?? [] };
})();
