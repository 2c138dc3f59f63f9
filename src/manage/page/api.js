// Requests to the daemon.
const api = (() => {
  // A token in the fragment of the address never reaches a server's log.
  const given = new URLSearchParams(location.hash.slice(1)).get("token");
  if (given) {
    sessionStorage.setItem("token", given);
    history.replaceState(null, "", location.pathname);
  }
  const headers = (accept) => {
    const token = sessionStorage.getItem("token");
    return token ? { Accept: accept, Authorization: `Bearer ${token}` } : { Accept: accept };
  };

  const failure = async (response) => {
    const text = await response.text();
    let problem = text;
    try { problem = JSON.parse(text).error ?? text; } catch { /* not JSON */ }
    const error = new Error(problem);
    error.status = response.status;
    return error;
  };

  const get = async (path) => {
    const response = await fetch(path, { headers: headers("application/json") });
    if (!response.ok) throw await failure(response);
    return response.json();
  };

  // Null where the resource does not exist now, such as /v1/torus without a torus.
  const tryGet = async (path) => {
    try { return await get(path); } catch (error) {
      if (error.status === 404 || error.status === 503) return null;
      throw error;
    }
  };

  // Passes events to `take`, from number `after` on, until the connection ends.
  const events = async (after, take) => {
    const response = await fetch(`/v1/events?after=${after}`, { headers: headers("application/x-ndjson") });
    if (!response.ok) throw await failure(response);
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    let rest = "";
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      const lines = (rest + value).split("\n");
      rest = lines.pop();
      const batch = lines.filter((line) => line.trim()).map((line) => JSON.parse(line));
      if (batch.length) take(batch);
    }
  };
  // Starts an action, which needs a token.
  const post = async (path, body) => {
    const response = await fetch(path, { method: "POST", headers: headers("application/json"), body: JSON.stringify(body) });
    if (!response.ok) throw await failure(response);
    return response.json();
  };
  // Sends the bytes of a Blob.
  const upload = async (path, bytes) => {
    const response = await fetch(path, { method: "POST", headers: headers("application/json"), body: bytes });
    if (!response.ok) throw await failure(response);
    return response.json();
  };
  const mayAct = () => sessionStorage.getItem("token") !== null;
  return { get, tryGet, events, post, upload, mayAct };
})();
