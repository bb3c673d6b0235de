// xterm writes styles as style elements and style attributes, which the page's policy refuses because a text that
// reaches either could be anybody's. Both are done through the object model of styles instead, which takes no markup.

const create = document.createElement.bind(document);
const set = Element.prototype.setAttribute;

document.createElement = function (name, options) {
  return String(name).toLowerCase() === "style" ? adopted() : create(name, options);
};

Element.prototype.setAttribute = function (name, value) {
  if (name === "style") this.style.cssText = value;
  else set.call(this, name, value);
};

function adopted() {
  const sheet = new CSSStyleSheet();
  document.adoptedStyleSheets.push(sheet);
  const element = create("span");
  element.hidden = true;
  let text = "";
  Object.defineProperty(element, "textContent", {
    get: () => text,
    set: (value) => {
      text = value;
      sheet.replaceSync(value);
    },
  });
  element.remove = () => {
    Element.prototype.remove.call(element);
    document.adoptedStyleSheets = document.adoptedStyleSheets.filter((each) => each !== sheet);
  };
  return element;
}
