"use strict";
// Improvements of pages that can be read without: filters, live calls, copying.

const ENDED = "Your session has ended: load this page again to sign in.";

for (const box of document.querySelectorAll("[data-filter]")) {
  box.hidden = false;
  const input = box.querySelector("input");
  const said = box.querySelector("[role=status]");
  const rows = [...document.querySelectorAll(box.dataset.filter)];
  input.addEventListener("input", () => {
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const row of rows) {
      const text = row.textContent.toLowerCase();
      row.hidden = !words.every((word) => text.includes(word));
      if (!row.hidden) shown += 1;
    }
    said.textContent = words.length ? `${shown} of ${rows.length} rows` : "";
  });
}

// Asks for the results of a form while a person types. A newer request ends the one before it.
for (const form of document.querySelectorAll("form[data-as-you-type]")) {
  const parts = ["[data-count]", "[data-results]"];
  let timer;
  let asking = new AbortController();
  const ask = async () => {
    asking.abort();
    asking = new AbortController();
    const address = new URL(form.action);
    address.search = new URLSearchParams(new FormData(form));
    try {
      const answer = await fetch(address, { cache: "no-store", signal: asking.signal });
      if (answer.status === 401) document.querySelector(parts[0]).textContent = ENDED;
      if (!answer.ok) return;
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      for (const part of parts) {
        document.querySelector(part).replaceChildren(...page.querySelector(part).childNodes);
      }
      history.replaceState(null, "", address);
    } catch {
      // A newer request, or no answer: the button asks again.
    }
  };
  form.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(ask, 200);
  });
}

for (const button of document.querySelectorAll("[data-copy]")) {
  if (!navigator.clipboard) continue;
  button.hidden = false;
  button.addEventListener("click", async () => {
    const source = document.getElementById(button.dataset.copy);
    try {
      await navigator.clipboard.writeText(source.textContent);
      button.textContent = "Copied";
    } catch {
      button.textContent = "Not copied: select the text";
    }
  });
}

// Polls for rows behind the newest one. A page in the background rests; an error doubles the pause.
const live = document.querySelector("[data-live]");
if (live) {
  const MOST_ROWS = 500;
  const LIVE = "New calls appear by themselves.";
  const body = document.querySelector("tbody");
  const state = document.querySelector("[data-live-state]");
  const toggle = document.querySelector("[data-live-toggle]");
  let after = live.dataset.after;
  let pause = 2000;
  let told = LIVE;
  let on = true;
  toggle.hidden = false;
  toggle.addEventListener("click", () => {
    on = !on;
    toggle.textContent = on ? "Pause" : "Go on";
    state.textContent = on ? LIVE : "Paused.";
  });
  state.textContent = LIVE;
  const step = async () => {
    if (on && !document.hidden) {
      try {
        const address = new URL(live.dataset.live, location.href);
        address.searchParams.set("after", after);
        const answer = await fetch(address, { cache: "no-store" });
        if (answer.status === 401) {
          toggle.hidden = true;
          state.textContent = ENDED;
          return;
        }
        if (!answer.ok) throw new Error(String(answer.status));
        after = answer.headers.get("x-next") ?? after;
        const rows = new DOMParser().parseFromString(`<table><tbody>${await answer.text()}</tbody></table>`, "text/html");
        const fresh = [...rows.querySelectorAll("tbody > tr")];
        for (const row of fresh) row.classList.add("new");
        body.prepend(...fresh);
        while (body.rows.length > MOST_ROWS) body.lastElementChild.remove();
        pause = 2000;
        const missing = answer.headers.get("x-missing-replicas");
        told = missing ? `New calls appear by themselves; without an answer: ${missing}.` : LIVE;
      } catch {
        pause = Math.min(pause * 2, 60000);
        told = "The server does not answer; trying again.";
      }
      // A screen reader says each change of the text, also one to an equal text.
      if (on && state.textContent !== told) state.textContent = told;
    }
    setTimeout(step, pause);
  };
  setTimeout(step, pause);
}
