"use strict";
// The pages also work without this script. Times are then in UTC, and pages are not reloaded automatically.

// Show times in the reader's time zone. The server's text, in UTC, becomes the tooltip.
const zoned = root => {
  for (const time of root.querySelectorAll("time[datetime]")) {
    const when = new Date(time.dateTime);
    if (isNaN(when)) continue;
    time.title = time.textContent;
    time.textContent = when.toLocaleString(undefined, { dateStyle: "medium", timeStyle: "short" });
  }
};

// A page that still changes has data-follow=SECONDS on <main>. Replace <main> after this time if the page is visible.
const follow = (main, text) => {
  if (main?.dataset.follow) setTimeout(again, 1000 * main.dataset.follow, main, text);
};
const again = async (main, text) => {
  // Do not replace a button that the reader is using.
  if (!document.hidden && !main.contains(document.activeElement)) {
    try {
      const answer = await fetch(location.href, { credentials: "same-origin", redirect: "error" });
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      const fresh = answer.ok && page.querySelector("main");
      if (fresh && fresh.innerHTML !== text) {
        text = fresh.innerHTML;
        zoned(fresh);
        main.replaceWith(fresh);
        main = fresh;
      }
    } catch { /* try again later */ }
  }
  follow(main, text);
};
const main = document.querySelector("main");
follow(main, main?.innerHTML);
zoned(document);

// Show the deadline's field in the reader's time zone, and send the zone with the form.
const picker = document.querySelector("#deadline");
if (picker) {
  const two = number => String(number).padStart(2, "0");
  const setZone = () => {
    const east = -new Date(picker.value || Date.now()).getTimezoneOffset(); // minutes
    const size = Math.abs(east);
    picker.form.elements.zone.value = `${east < 0 ? "-" : "+"}${two(Math.floor(size / 60))}:${two(size % 60)}`;
  };
  if (picker.value) {
    const when = new Date(picker.value + "Z");
    picker.value = new Date(when - 60000 * when.getTimezoneOffset()).toISOString().slice(0, 16);
  }
  setZone();
  picker.addEventListener("input", setZone);
  document.querySelector("label[for=deadline]").textContent = "Deadline (your time zone)";
}
