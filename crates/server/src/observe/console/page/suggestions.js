// A field of text that offers what may stand at its caret, as WAI-ARIA's combobox with a list box. Nothing is chosen until somebody does so with an arrow key or the
// pointer, so that Enter and Tab mean what they always do, and no word is changed unasked.

import { element } from "./show.js";

// `offered(text, caret)` gives `{options: [{name, hint}], ...}` or nothing; `edit(text, offer, name)` the change that an option makes. Returns what is to be
// called when there is more to offer than before.
export function suggest(input, list, offered, edit) {
  let offer, active = -1;

  const close = () => {
    offer = undefined;
    if (input.getAttribute("aria-expanded") === "true") list.hidden = true;
    input.setAttribute("aria-expanded", false);
    input.removeAttribute("aria-activedescendant");
  };
  const look = () => {
    offer = document.activeElement === input && input.selectionStart === input.selectionEnd ? offered(input.value, input.selectionStart) : undefined;
    if (!offer) return close();
    list.replaceChildren(...offer.options.map(option));
    list.hidden = false;
    place(input, list);
    list.scrollTop = 0;
    input.setAttribute("aria-expanded", true);
    mark(-1);
  };
  const option = ({ name, hint }, at) => {
    const item = element("li", name);
    item.id = `${list.id}-${at}`;
    item.setAttribute("role", "option");
    if (hint) item.append(" ", element("span", hint, "dim"));
    item.onclick = () => accept(at);
    return item;
  };
  const mark = at => {
    active = at;
    for (const [place, item] of [...list.children].entries()) item.setAttribute("aria-selected", place === active);
    const item = list.children[active];
    if (!item) return input.removeAttribute("aria-activedescendant");
    input.setAttribute("aria-activedescendant", item.id);
    item.scrollIntoView({ block: "nearest" });
  };
  const accept = at => {
    const { from, to, text, caret } = edit(input.value, offer, offer.options[at].name);
    close();
    input.focus();
    input.setSelectionRange(from, to);
    // As if it had been typed: the browser can undo it.
    if (!document.execCommand("insertText", false, text)) input.setRangeText(text, from, to, "end");
    input.setSelectionRange(caret, caret);
    look();
  };
  const press = event => {
    if (event.isComposing || event.ctrlKey && event.key !== " " || event.metaKey || event.altKey) return;
    const count = offer?.options.length ?? 0;
    if (event.key === "ArrowDown" || event.key === "ArrowUp" || (event.key === " " && event.ctrlKey)) {
      event.preventDefault();
      if (!count) return look();
      // One step beyond either end nothing is chosen.
      const steps = { ArrowDown: 1, ArrowUp: -1 }[event.key] ?? 0;
      mark((active + 1 + steps + count + 1) % (count + 1) - 1);
    } else if ((event.key === "Enter" || event.key === "Tab") && count && active >= 0 && !event.shiftKey) {
      event.preventDefault();
      accept(active);
    } else if (event.key === "Escape" && count) {
      event.preventDefault();
      event.stopPropagation();
      close();
    } else if (["ArrowLeft", "ArrowRight", "Home", "End", "Enter"].includes(event.key)) close();
  };

  // The focus stays where it is while somebody points at the list.
  list.onmousedown = event => event.preventDefault();
  input.addEventListener("input", event => { if (!event.isComposing) look(); });
  input.addEventListener("compositionend", look);
  input.addEventListener("keydown", press);
  input.addEventListener("click", close);
  input.addEventListener("blur", close);
  return () => { if (offer && active < 0) look(); };
}

// Below the field, and within the width of what holds both.
function place(input, list) {
  const room = list.offsetParent?.clientWidth ?? innerWidth;
  list.style.left = `${Math.max(0, Math.min(input.offsetLeft, room - list.offsetWidth))}px`;
  list.style.top = `${input.offsetTop + input.offsetHeight + 2}px`;
}
