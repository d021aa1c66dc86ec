"use strict";
(() => {
  const find = (what) => document.querySelector(what);
  const form = find("form[data-verdict]"), help = find("#help");
  const note = form && form.querySelector("textarea");
  let sent = false;

  // A task without justifications has only the answer to judge.
  const message = find("[data-message]");
  const tell = (text) => { if (message) message.textContent = text; };
  const set = (name) => form && form.elements[name] && form.elements[name].value;
  const full = () => set("answer") && (!form.elements.justification || set("justification"));
  const keep = () => { if (!sent) { sent = true; form.requestSubmit(form.querySelector("button.main")); } };
  const pick = (key) => {
    const box = form.querySelector(`input[data-key="${key}"]`);
    if (box) {
      box.checked = true;
      box.focus({preventScroll: true});
    }
    tell("");
    if (full()) keep();
  };
  const press = (key) => {
    const node = find(`[data-press="${key}"]`);
    if (node && !sent) { if (node.tagName === "BUTTON") sent = true; node.click(); }
  };

  if (form) {
    form.addEventListener("submit", (event) => {
      const bare = !event.submitter || event.submitter.classList.contains("main");
      if (bare && !set("answer") && !set("justification")) { event.preventDefault(); sent = false; tell(message.dataset.empty); }
    });
    form.addEventListener("click", (event) => {
      const isPick = event.target.matches("input[type=radio]") && event.detail > 0;
      if (isPick && full()) keep();
    });
  }
  // A key that comes while the next answer is loading was pressed before anybody saw that answer.
  const EARLY = "layton-batch early key";
  window.addEventListener("pageshow", () => {
    sent = false;
    const early = sessionStorage.getItem(EARLY);
    sessionStorage.removeItem(EARLY);
    if (early) tell(`The key ${early} came before this answer was shown and did nothing. Press it again if it is meant.`);
  });

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing || event.repeat) return;
    const typing = event.target.matches("textarea, input:not([type=radio])");
    if (typing) {
      if (event.key === "Escape") event.target.blur();
      return;
    }
    if (event.key === "?" && help) { event.preventDefault(); help.open ? help.close() : help.showModal(); return; }
    if (help && help.open) return;
    const key = event.key.toLowerCase();
    if (sent && (key === "enter" || (key.length === 1 && "1234ynuszf".includes(key)))) {
      event.preventDefault();
      sessionStorage.setItem(EARLY, event.key);
      return;
    }
    if (form && "1234".includes(key) && key.length === 1) { event.preventDefault(); pick(key); }
    else if (form && key === "y") { form.elements.answer.value = "right"; pick("3"); }
    else if (form && key === "n") { form.elements.answer.value = "wrong"; pick("4"); }
    else if (form && key === "enter" && !event.target.matches("button, a, summary")) { event.preventDefault(); set("answer") || set("justification") ? keep() : tell(message.dataset.empty); }
    else if (form && key === "m") { event.preventDefault(); note.focus(); }
    else if (key === "g") { if (guidelines) guidelines.open = !guidelines.open; }
    else if (key === "h") { const hints = find(".hints"); if (hints) hints.open = !hints.open; }
    else if (key.length === 1 && "uszf".includes(key)) press(key);
  });
  // Guidelines stay open or closed from answer to answer.
  const guidelines = find("[data-guidelines]"), CLOSED = "layton-batch guidelines closed";
  if (guidelines) {
    guidelines.open = !sessionStorage.getItem(CLOSED);
    guidelines.addEventListener("toggle", () => guidelines.open ? sessionStorage.removeItem(CLOSED) : sessionStorage.setItem(CLOSED, "1"));
  }
  const opener = find("[data-help]");
  if (opener) opener.addEventListener("click", () => help.showModal());

  const show = (numbers) => {
    for (const node of document.querySelectorAll("[data-live]")) {
      const value = numbers[node.dataset.live];
      if (value === "") continue;
      if (!Array.isArray(value)) { if (node.textContent !== String(value)) node.textContent = value; continue; }
      if (!value.length) continue;
      const name = node.tagName === "UL" ? "li" : "span";
      node.replaceChildren(...value.map((line) => Object.assign(document.createElement(name), {textContent: line})));
    }
  };
  const watch = find("[data-watch]");
  let quiet = 0;
  const look = async () => {
    let busy = true;
    try {
      const answer = await fetch("/progress.json", {credentials: "same-origin"});
      if (!answer.ok) return;
      const numbers = await answer.json();
      show(numbers);
      busy = numbers.busy;
    } catch { return; }
    quiet = busy ? 0 : quiet + 1;
    if (busy || watch || quiet < 2) setTimeout(look, watch && !busy ? 3000 : 700);
  };
  if (find("[data-live]")) setTimeout(look, 400);
})();
