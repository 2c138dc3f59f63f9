// Keeps the page up to date.
const POLL_INTERVAL = 2000; // milliseconds between requests for status and SA load
const MAX_AGE = 7000; // milliseconds from which on data counts as stale
const RETRY_INTERVAL = 2000; // milliseconds before a lost connection is tried again
const REFRESH_DELAY = 250; // milliseconds for further events before the fabric is read again
const LARGE_FABRIC = 4000; // links above which the fabric is read less often
const LARGE_REFRESH_DELAY = 2000;

const CHANGES = new Set(["node_found", "node_lost", "link_found", "link_lost", "more_changes", "reconfigured",
  "plan_rejected", "subnet_up", "role_changed", "link_quarantined", "link_released", "counters_read"]);

let refreshTimer = null;
let isRefreshing = false;
let isStale = false;
let lastEvent = 0;
let colour = "lids";
let lastData = null; // time of the last complete status, milliseconds

// Greys the page while its data is old.
const showAge = () => {
  const age = lastData === null || recording.isShown() ? 0 : performance.now() - lastData;
  const isOld = age > MAX_AGE;
  document.body.classList.toggle("stale", isOld);
  byId("age").hidden = !isOld;
  byId("age").textContent = isOld ? `data of ${Math.round(age / 1000)} s ago` : "";
};

const guarded = (work) => async (...values) => {
  try {
    await work(...values);
    byId("connection").hidden = true;
  } catch (error) {
    if (error.status === 401) { byId("token-form").hidden = false; return; }
    byId("connection").hidden = false;
    byId("connection").textContent = error.status ? error.message : "no connection";
  }
};

const refresh = guarded(async () => {
  if (recording.isShown()) return;
  if (isRefreshing) { isStale = true; return; }
  isRefreshing = true;
  try {
    const [nodes, links, torus, quarantine] = await Promise.all([
      api.tryGet("/v1/nodes"), api.tryGet("/v1/links"), api.tryGet("/v1/torus"), api.tryGet("/v1/quarantine"),
    ]);
    if (recording.isShown()) return;
    if (nodes && links) {
      updateFabric(nodes.nodes, links, torus);
      await traffic.read(colour);
      byId("loading").hidden = true;
      drawing.update();
      showCounts();
      showFaults(quarantine);
      showLegend(colour);
      if (model.path) showPath(...model.path.query);
    } else {
      byId("loading").textContent = "waiting for the first sweep";
    }
  } finally {
    isRefreshing = false;
  }
  if (isStale) { isStale = false; scheduleRefresh(); }
});

const scheduleRefresh = () => {
  if (refreshTimer) return;
  const delay = model.links.length > LARGE_FABRIC ? LARGE_REFRESH_DELAY : REFRESH_DELAY;
  refreshTimer = setTimeout(() => { refreshTimer = null; refresh(); }, delay);
};

const poll = guarded(async () => {
  if (recording.isShown()) return;
  const [status, incidents] = [await api.get("/v1/status"), await api.get("/v1/incidents")];
  if (recording.isShown()) return;
  model.status = status;
  showStatus(status);
  showCongestion(status.congestion_control);
  showIncidents(incidents.open);
  lastData = performance.now();
  showAge();
  const sa = await api.tryGet("/v1/sa");
  if (sa) {
    const rate = charts.takeSa(sa, performance.now());
    byId("sa").textContent = `${Math.round(rate)} replies/s, ${sa.queued} queued, ${counted(sa.multicast_groups, "group", "groups")}, ${counted(sa.subscriptions, "subscription", "subscriptions")}`;
  }
  charts.drawTimeline();
});

const follow = async () => {
  for (;;) {
    await guarded(() => api.events(lastEvent, (events) => {
      events.forEach(charts.take);
      if (!recording.isShown()) showEvents(events);
      events.forEach(takeResult);
      if (events.some((event) => CHANGES.has(event.event))) scheduleRefresh();
      lastEvent = events.at(-1).number ?? lastEvent;
    }))();
    await new Promise((resolve) => { setTimeout(resolve, RETRY_INTERVAL); });
    scheduleRefresh();
  }
};

const select = (node) => {
  model.selected = node.guid;
  model.selectedLink = null;
  drawing.redraw();
  guarded(showSelected)(node);
};

const selectLink = (link) => {
  model.selectedLink = link;
  model.selected = null;
  drawing.redraw();
  guarded(showSelectedLink)(link);
};

const clearSelection = () => {
  [model.selected, model.selectedLink, model.found] = [null, null, null];
  byId("selected").textContent = "Click on a node or a link.";
  drawing.redraw();
};

const useForms = () => {
  const find = (node) => { model.found = node.guid; select(node); drawing.centre(node.guid); };
  suggest(byId("find"), byId("find-list"), find);
  suggest(byId("from"), byId("from-list"));
  suggest(byId("to"), byId("to-list"));
  byId("find-form").addEventListener("submit", (event) => {
    event.preventDefault();
    const [node] = findNodes(byId("find").value, 1);
    if (node) find(node); else byId("selected").textContent = "No such node.";
  });
  byId("path-form").addEventListener("submit", (event) => {
    event.preventDefault();
    clearPath();
    showPath(byId("from").value.trim(), byId("to").value.trim());
  });
  byId("path-clear").addEventListener("click", clearPath);
  traffic.addChoices(byId("colour"));
  byId("colour").addEventListener("change", guarded(async (event) => {
    colour = event.target.value;
    if (!await traffic.read(colour)) return;
    drawing.setColour(colour);
    showLegend(colour);
  }));
  byId("fit").addEventListener("click", drawing.fit);
  byId("worst").addEventListener("click", () => { if (model.incidents[0]) goTo(model.incidents[0]); });
  byId("sweep").hidden = !api.mayAct();
  byId("sweep").addEventListener("click", guarded(() => api.post("/v1/actions/resweep", {})));
  byId("token-form").addEventListener("submit", (event) => {
    event.preventDefault();
    sessionStorage.setItem("token", byId("token").value.trim());
    location.reload();
  });
};

usePointers();
useKeys();
useForms();
const redrawAll = () => { drawing.redraw(); charts.drawTimeline(); showLegend(colour); };
window.addEventListener("resize", redrawAll);
palette.follow(redrawAll);
const showLive = () => {
  byId("role").textContent = "loading";
  refresh();
  poll();
};
recording.use();
const recorded = recording.embedded();
if (recorded) {
  // There is no daemon to return to.
  for (const id of ["recording-own", "recording-load", "recording-close", "sweep"]) byId(id).hidden = true;
  recording.open(recorded);
} else {
  showLive();
  setInterval(poll, POLL_INTERVAL);
  setInterval(showAge, 1000);
  follow();
}
