// The parts of the fabric that incidents are about.
const GUIDS = /0x[0-9a-f]{16}/g;

// The nodes and links that an incident names by its identifier.
const partsOf = (incident) => {
  const port = /^(?:cable|exchange)-(0x[0-9a-f]{16})-(\d+)$/.exec(incident.id);
  if (port) {
    const isAt = (link) => link.ends.some((end) => end.guid === port[1] && end.port === Number(port[2]));
    const link = model.links.find(isAt) ?? [...model.lost.values()].find(isAt);
    return { nodes: link ? [] : [port[1]], links: link ? [link] : [] };
  }
  const client = /^client-(\d+)-/.exec(incident.id);
  if (client) {
    const node = [...model.nodes.values()].find((known) => known.lids.includes(Number(client[1])));
    return { nodes: node ? [node.guid] : [], links: [] };
  }
  return { nodes: incident.id.match(GUIDS) ?? [], links: [] };
};

// Shows the parts of an incident in the drawing.
const goTo = (incident) => {
  const { nodes, links } = partsOf(incident);
  const guids = [...nodes, ...links.flatMap((link) => link.ends.map((end) => end.guid))];
  drawing.zoomTo(guids);
};
