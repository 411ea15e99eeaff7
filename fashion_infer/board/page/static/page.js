"use strict";
// Nothing here is needed: without it times are in UTC, and a page stays as it was when it was asked for.

// Times in the reader's own zone; the one that the server wrote stays as the title.
const zoned = root => {
  for (const time of root.querySelectorAll("time[datetime]")) {
    const when = new Date(time.dateTime);
    if (isNaN(when)) continue;
    time.title = time.textContent;
    time.textContent = when.toLocaleString(undefined, { dateStyle: "medium", timeStyle: "short" });
  }
};
zoned(document);

// A page that still changes says so on <main>: it is asked for again while somebody looks at it.
const again = async main => {
  let next = main;
  // Whoever is at a button there must not lose it.
  if (!document.hidden && !main.contains(document.activeElement)) {
    try {
      const answer = await fetch(location.href, { credentials: "same-origin", redirect: "error" });
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      const fresh = answer.ok && page.querySelector("main");
      if (fresh && fresh.dataset.version !== main.dataset.version) {
        zoned(fresh);
        main.replaceWith(fresh);
        next = fresh;
      }
    } catch { /* the next time, perhaps */ }
  }
  wait(next);
};
const wait = main => { if (main?.dataset.follow) setTimeout(again, 1000 * main.dataset.follow, main); };
wait(document.querySelector("main"));
