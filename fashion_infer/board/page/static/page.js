"use strict";
// Without this script times are in UTC, pages are not reloaded, and a file is dropped on its field only.

// The server writes all times in the reader's time zone.
document.cookie = `zone=${Intl.DateTimeFormat().resolvedOptions().timeZone}; path=/; max-age=31536000; SameSite=Lax`;

// Take a file that is dropped anywhere on the form. The focus keeps `again` from replacing the form.
for (const kind of ["dragover", "drop"]) document.addEventListener(kind, event => {
  const field = event.target.closest("form.upload")?.elements.file;
  if (!field) return;
  event.preventDefault();
  if (kind === "drop") {
    field.files = event.dataTransfer.files;
    field.focus();
  }
});

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
        main.replaceWith(fresh);
        main = fresh;
      }
    } catch { /* try again later */ }
  }
  follow(main, text);
};
const main = document.querySelector("main");
follow(main, main?.innerHTML);
