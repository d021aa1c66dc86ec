
(() => {
  "use strict";
  // The address holds what a reader chose: #sort=score&dir=descending&q=text&maker=name&view=new
  const read = () => new URLSearchParams(location.hash.includes("=") ? location.hash.slice(1) : "");
  const write = (params) => {
    const text = params.toString();
    history.replaceState(null, "", text ? `#${text}` : location.pathname + location.search);
  };

  for (const tools of document.querySelectorAll("[data-address]")) {
    const table = document.getElementById(tools.dataset.filterFor.split(" ")[0]).closest("table");
    const fields = [...tools.closest(".board-view").querySelectorAll("input[name], select[name]")];
    const isMark = (field) => field.type === "radio" || field.type === "checkbox";
    const heads = [...table.tHead.querySelectorAll("button[data-column]")];
    // A phone has no heads: it sorts by a list.
    const order = Object.assign(document.createElement("label"), { className: "order", textContent: "Sort by " });
    const choices = document.createElement("select");
    heads.forEach((one, at) => choices.append(new Option(one.textContent, at)));
    choices.addEventListener("change", () => heads[choices.value].click());
    order.append(choices);
    tools.prepend(order);
    const first = heads.find((one) => one.closest("th").hasAttribute("aria-sort"));
    const keep = () => {
      const params = new URLSearchParams();
      const sorted = heads.find((one) => one.closest("th").hasAttribute("aria-sort"));
      const order = sorted && sorted.closest("th").getAttribute("aria-sort");
      if (sorted && (sorted !== first || order !== first.dataset.first)) {
        params.set("sort", sorted.dataset.column);
        params.set("dir", order);
      }
      for (const one of fields) {
        if (isMark(one) ? one.checked && !one.defaultChecked : one.value) params.set(one.name, one.value);
      }
      write(params);
    };
    const restore = () => {
      const params = read();
      for (const one of fields) {
        const wanted = params.get(one.name);
        if (isMark(one)) one.checked = wanted === null ? one.defaultChecked : one.value === wanted;
        else one.value = wanted || "";
        if (one.tagName === "SELECT" && one.selectedIndex < 0) one.value = "";
      }
      fields.filter((one) => !isMark(one)).forEach((one) =>
        one.dispatchEvent(new Event(one.tagName === "SELECT" ? "change" : "input")));
      const head = heads.find((one) => one.dataset.column === params.get("sort")) || first;
      const order = params.get("dir") || (head && head.dataset.first);
      for (let turn = 0; head && turn < 2 && head.closest("th").getAttribute("aria-sort") !== order; turn += 1) head.click();
    };
    window.addEventListener("pageshow", () => {
      restore();
      fields.forEach((one) => {
        one.addEventListener("input", keep);
        one.addEventListener("change", keep);
      });
      heads.forEach((one) => one.addEventListener("click", keep));
    }, { once: true });
    window.addEventListener("hashchange", restore);
  }

  // A chart says its values where the pointer is, and shows the models that are chosen in its legend.
  const tip = document.createElement("div");
  tip.className = "tip";
  tip.hidden = true;
  for (const title of document.querySelectorAll(".figure .chart path > title")) {
    title.parentNode.dataset.tip = title.textContent;
    title.remove();
  }
  const reach = 24;
  const nearest = (chart, x, y) => {
    let found = null, least = reach;
    for (const mark of chart.querySelectorAll("path[data-tip]:not([display=none])")) {
      const box = mark.getBoundingClientRect(), away = Math.hypot(box.x + box.width / 2 - x, box.y + box.height / 2 - y);
      if (box.width < reach && box.height < reach && away < least) [found, least] = [mark, away];
    }
    return found;
  };
  const point = (event) => {
    const mark = nearest(event.currentTarget, event.clientX, event.clientY) || event.target.closest("path[data-tip]");
    tip.hidden = !mark;
    if (!mark) return;
    tip.textContent = mark.dataset.tip;
    const left = Math.min(event.clientX + 12, document.documentElement.clientWidth - tip.offsetWidth - 4);
    tip.style.left = `${Math.max(left, 4)}px`;
    tip.style.top = `${Math.max(event.clientY - tip.offsetHeight - 10, 4)}px`;
  };
  for (const figure of document.querySelectorAll(".figure")) {
    for (const chart of figure.querySelectorAll(".chart")) {
      chart.addEventListener("pointermove", point);
      chart.addEventListener("pointerdown", point);
      chart.addEventListener("pointerleave", () => (tip.hidden = true));
    }
    for (const entry of figure.querySelectorAll(".legend li")) {
      const button = document.createElement("button");
      button.type = "button";
      button.append(...entry.childNodes);
      button.setAttribute("aria-pressed", !entry.classList.contains("off"));
      entry.classList.remove("off");
      entry.append(button);
      button.addEventListener("click", () => {
        const isChosen = button.getAttribute("aria-pressed") !== "true";
        button.setAttribute("aria-pressed", isChosen);
        for (const mark of figure.querySelectorAll(`.chart [data-model="${entry.dataset.model}"]`)) {
          if (isChosen) mark.removeAttribute("display");
          else mark.setAttribute("display", "none");
        }
      });
    }
  }
  document.body.append(tip);

  const place = document.querySelector("[data-comparison]");
  if (!place) return;
  const data = JSON.parse(document.getElementById("comparison-data").textContent);
  const [a, b] = ["a", "b"].map((name) => place.querySelector(`select[name=${name}]`));
  const views = place.querySelectorAll("[name=view]");
  const make = (tag, text, attributes = {}) => {
    const node = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
    if (text) node.textContent = text;
    return node;
  };
  for (const select of [a, b]) data.models.forEach((name, at) => select.append(new Option(name, at)));
  // Of a pair: percent, and the difference with the ends of its interval; both on these items and on new ones.
  const gap = (i, j, here) => {
    const turned = !data.better[`${i},${j}`], found = data.better[turned ? `${j},${i}` : `${i},${j}`];
    const scores = [data.scores[i][here ? 0 : 1], data.scores[j][here ? 0 : 1]];
    const lead = scores.includes(null) ? null : scores[0] - scores[1];
    if (!found) return { chance: null, lead, ends: [null, null] };
    const chance = found[here ? 0 : 1], ends = found[here ? 2 : 3];
    const own = turned && ends[0] !== null ? [-ends[1], -ends[0]] : ends;
    const held = lead === null || own[0] === null ? own : [Math.min(own[0], lead), Math.max(own[1], lead)];
    return { chance: turned && chance !== null ? 100 - chance : chance, lead, ends: held };
  };
  const signed = (value) => (value < 0 ? "\u2212" : "+") + Math.abs(value).toFixed(1);
  const percent = (value) => (value > 99.9 ? "more than 99.9" : value < 0.1 ? "less than 0.1" : value.toFixed(1));
  const pattern = place.querySelector("svg.chance");
  const bar = (value) => {
    const svg = pattern.cloneNode(true);
    svg.querySelector(".mine").setAttribute("width", `${value}%`);
    svg.removeAttribute("display");
    return svg;
  };
  // The answers of a model stand in a file of their own, which is loaded when the model is chosen.
  const loaded = new Set();
  const load = (name) => {
    if (loaded.has(name) || !data.items.length) return;
    loaded.add(name);
    const script = make("script", "", { src: `compare/${name}.js` });
    script.addEventListener("load", () => list());
    document.head.append(script);
  };
  const signs = { 1: ["yes", "\u2713", "right"], 2: ["unread", "~", "partly right"], 0: ["no", "\u2717", "wrong"] };
  const reply = (i, at) => {
    const [kind, sign, words] = signs[data.marks[i][at]], [answer, reason, verdict, judges] = window.modelAnswers?.[i]?.[at] ?? ["", "", "", []];
    const node = make("div", "", { class: "reply-of" }), mark = make("span", "", { class: `sign ${kind}` });
    mark.append(make("b", sign, { "aria-hidden": "true" }), make("span", ` ${words}: `, { class: "unseen" }));
    const said = make("p", "", { class: "answer" });
    said.append(mark, answer ? make("bdi", answer) : make("em", verdict.split(" \u00b7 ")[0]));
    node.append(make("small", data.models[i]), said);
    if (reason) node.append(make("p", reason, { class: "reason" }));
    if (verdict) node.append(make("p", [verdict, ...judges].join(" \u00b7 "), { class: "judges" }));
    return node;
  };
  const who = place.querySelector("[name=show]");
  const list = () => {
    const i = Number(a.value), j = Number(b.value), kinds = { "": [], a: [], b: [], none: [] };
    data.items.forEach((_, at) => {
      const mine = data.marks[i][at], theirs = data.marks[j][at];
      if (mine === theirs || mine === "-" || theirs === "-") return;
      kinds[""].push(at);
      kinds[mine === "1" ? "a" : theirs === "1" ? "b" : "none"].push(at);
    });
    const words = { "": "all", a: `only ${data.models[i]} is right`, b: `only ${data.models[j]} is right`, none: "neither is wholly right" };
    for (const option of who.options) {
      option.textContent = `${words[option.value]} (${kinds[option.value].length})`;
      option.hidden = option.value === "none" && !kinds.none.length;
    }
    place.querySelector("[data-rows]").replaceChildren(...kinds[who.value].map((at) => {
      const article = make("article"), head = make("h3"), pair = make("div", "", { class: "pair" });
      const [question, reference] = window.comparedItems?.[at] ?? ["", ""];
      head.append(make("a", data.items[at][1], { href: `items/${data.items[at][0]}` }));
      article.append(head);
      if (question) article.append(make("p", question, { class: "asked" }));
      if (reference) {
        const shown = make("dl");
        shown.append(make("dt", "Reference: "), make("dd", reference));
        article.append(shown);
      }
      pair.append(reply(i, at), reply(j, at));
      article.append(pair);
      return article;
    }));
    ["items", i, j].forEach(load);
  };
  const show = () => {
    const i = Number(a.value), j = Number(b.value), verdict = place.querySelector("[data-verdict]");
    const parts = [];
    if (i === j) parts.push(make("p", "Choose two different models.", { class: "verdict" }));
    else {
      const these = Boolean(place.querySelector("[name=view][value=these]:checked"));
      const { chance, lead, ends } = gap(i, j, these), words = these ? "on this set of items" : "on new items of this kind";
      if (chance !== null) {
        parts.push(make("p", `${data.models[i]} is better than ${data.models[j]} ${words} with ${percent(chance)} % probability.`,
          { class: "verdict" }), bar(chance));
      }
      if (lead !== null) {
        const held = ends[0] === null ? "" : ` (${place.dataset.level}: ${signed(ends[0])} to ${signed(ends[1])})`;
        parts.push(make("p", `Difference: ${signed(lead)} points${held}.`, { class: "gap" }));
      }
    }
    verdict.replaceChildren(...parts);
    list();
  };
  const keep = () => {
    const these = place.querySelector("[name=view][value=these]:checked");
    write(new URLSearchParams({ a: data.models[a.value], b: data.models[b.value], ...(these && { view: "these" }), ...(who.value && { show: who.value }) }));
    show();
  };
  const restore = () => {
    const params = read();
    [[a, "a", 0], [b, "b", 1]].forEach(([select, name, other]) => {
      const at = data.models.indexOf(params.get(name));
      select.value = at < 0 ? other : at;
    });
    who.value = params.get("show") || "";
    if (who.selectedIndex < 0) who.value = "";
    for (const one of views) one.checked = one.value === (params.get("view") === "these" ? "these" : "new");
    show();
  };
  views.forEach((one) => one.addEventListener("change", keep));
  a.addEventListener("change", keep);
  b.addEventListener("change", keep);
  who.addEventListener("change", keep);
  place.querySelector("[data-swap]").addEventListener("click", () => {
    [a.value, b.value] = [b.value, a.value];
    keep();
  });
  window.addEventListener("hashchange", restore);
  restore();
  place.hidden = false;
})();
