// The pages work without this script. It copies IDs, handles keyboard shortcuts, and updates parts that change
// without a decision.
"use strict";

const said = document.getElementById("said");

function copies(root) {
  for (const at of root.querySelectorAll("[data-copy]")) {
    if (at.nextElementSibling?.classList.contains("copy")) continue;
    const b = document.createElement("button");
    b.type = "button";
    b.className = "copy";
    b.setAttribute("aria-label", "Copy " + at.dataset.copy);
    b.addEventListener("click", () => navigator.clipboard.writeText(at.dataset.copy).then(() => {
      said.textContent = "copied";
      b.classList.add("done");
      setTimeout(() => b.classList.remove("done"), 1200);
    }));
    at.tagName === "H1" ? at.append(b) : at.after(b);
  }
}
copies(document);

const leads = { n: "/", o: "/overview", e: "/events", a: "/accounts", t: "/tasks", j: "/jobs" };
let led = 0;
document.addEventListener("keydown", (e) => {
  if (e.ctrlKey || e.metaKey || e.altKey || e.target.closest("input, textarea, select")) return;
  if (e.key === "/") {
    const q = document.getElementById("q");
    if (q) { e.preventDefault(); q.focus(); q.select(); }
  } else if (e.key === "?") {
    document.getElementById("keys").showModal();
  } else if (e.key === "g") {
    led = Date.now();
  } else if (leads[e.key] && Date.now() - led < 1000) {
    location.href = leads[e.key];
  }
});

async function pageAt(address) {
  const answer = await fetch(address, { redirect: "error" });
  return answer.ok ? new DOMParser().parseFromString(await answer.text(), "text/html") : null;
}

// A part of a page that takes seconds is fetched after the page has loaded, and replaces its placeholder. If there is
// no response, the placeholder keeps its link.
for (const part of document.querySelectorAll("[data-later]")) {
  part.setAttribute("aria-busy", "true");
  pageAt(part.dataset.later).then((page) => {
    const whole = page?.getElementById(part.id);
    if (whole) part.replaceChildren(...whole.childNodes);
  }).catch(() => {}).finally(() => part.removeAttribute("aria-busy"));
}

// A page that changes is fetched again while it is visible. Nothing is replaced while a mouse button is pressed, a
// form has been edited or text is selected, and open sections stay open.
async function renew() {
  const main = document.getElementById("main");
  const busy = main.querySelector("form :focus, textarea:focus") || String(getSelection()) || main.matches(":active");
  if (document.hidden || busy) return;
  const page = await pageAt(location.href);
  fresh(page);
  const next = page?.getElementById("main");
  if (!next || next.innerHTML === renew.last) return;
  renew.last = next.innerHTML;
  const open = [...main.querySelectorAll("details")].map((d) => d.open);
  const focused = [...main.querySelectorAll("a, button, summary")].indexOf(document.activeElement);
  main.replaceChildren(...next.childNodes);
  main.querySelectorAll("details").forEach((d, i) => { d.open = open[i] || d.open; });
  copies(main);
  if (focused >= 0) main.querySelectorAll("a, button, summary")[focused]?.focus({ preventScroll: true });
  if (!page.body.dataset.refresh) clearInterval(renew.timer);
}

// A page that cannot be fetched again says since when its contents are old.
let updated = Date.now();
function fresh(page) {
  const stale = document.getElementById("stale");
  if (page) updated = Date.now();
  const minutes = Math.floor((Date.now() - updated) / 60000);
  stale.hidden = Boolean(page);
  stale.textContent = page ? "" : "This page cannot be updated. Its contents are " +
    (minutes ? minutes + " min old." : "less than a minute old.");
}
if (document.body.dataset.refresh) {
  renew.timer = setInterval(() => renew().catch(() => fresh(null)), document.body.dataset.refresh * 1000);
}
