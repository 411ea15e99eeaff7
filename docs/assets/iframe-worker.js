// Search without a server. A page that was opened from disk may not start a worker, so the search's worker runs in a
// hidden frame of the same page; the theme's offline plugin would fetch such a script from the network.
if (location.protocol === "file:")
  window.Worker = window.IFrameWorker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      this.started = new Promise((resolve) => {
        frame.onload = () => resolve(frame.contentWindow);
      });
      // The frame's script calls postMessage as a worker does: with the data alone, for whoever started it.
      window.answerFromFrame = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      frame.srcdoc = `<script>postMessage = parent.answerFromFrame</script><script src="${url}"></script>`;
      document.body.append(frame);
    }

    postMessage(data) {
      this.started.then((inside) => inside.dispatchEvent(new MessageEvent("message", { data })));
    }
  };
