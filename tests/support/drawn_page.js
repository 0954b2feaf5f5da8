// As much of a browser as the pages of trainer/report/page.html use: runs the scripts of a page and prints what they made of
// <main>, as HTML.
//
//   node drawn_page.js PAGE.html [ANSWERS.json]
//
// ANSWERS.json: {metrics: [text...], model: {...}}, what a server's /metrics and /v2/models/M say; two seconds pass from one
// text to the next, and after the last the page is printed.
'use strict';
const fs = require('fs'), vm = require('vm');
const [, , path, answersPath] = process.argv;
const text = fs.readFileSync(path, 'utf8'), answers = answersPath ? JSON.parse(fs.readFileSync(answersPath, 'utf8')) : {metrics: []};
const escaped = words => words.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('"', '&quot;');

class Node {
  constructor(tag) { Object.assign(this, {tag, parts: [], attributes: {}}); }
  append(...parts) {
    for (const part of parts) if (part instanceof Node) part.parent = this;
    this.parts.push(...parts);
  }
  replaceChildren(...parts) { this.parts = []; this.append(...parts); }
  replaceWith(other) {
    other.parent = this.parent;
    this.parent.parts[this.parent.parts.indexOf(this)] = other;
  }
  setAttribute(name, value) { this.attributes[name] = value; }
  getBoundingClientRect() { return {left: 0, width: 560}; }
  set className(value) { this.attributes.class = value; }
  set id(value) { this.attributes.id = value; }
  get id() { return this.attributes.id; }
  set href(value) { this.attributes.href = value; }
  set textContent(value) { this.parts = [String(value)]; }
  get textContent() { return this.parts.map(part => part instanceof Node ? part.textContent : part).join(''); }
  querySelectorAll(what) {
    const [tag, hasId] = what.split('[id]'), found = [];
    for (const part of this.parts) if (part instanceof Node) {
      if (part.tag === tag && (hasId === undefined || part.id)) found.push(part);
      found.push(...part.querySelectorAll(what));
    }
    return found;
  }
  querySelector(what) { return this.querySelectorAll(what)[0]; }
  get html() {
    const attributes = Object.entries(this.attributes).map(([name, value]) => ` ${name}="${escaped(String(value))}"`).join('');
    return `<${this.tag}${attributes}>${this.parts.map(part => part instanceof Node ? part.html : escaped(part)).join('')}</${this.tag}>`;
  }
}

const main = new Node('main'), root = new Node('html'), listeners = [];
root.append(main);
const document = {
  createElement: tag => new Node(tag),
  createElementNS: (_, tag) => new Node(tag),
  getElementById: id => ({textContent: text.match(new RegExp(`<script type="application/json" id="${id}">(.*?)</script>`, 's'))[1]}),
  querySelector: what => root.querySelector(what),
  querySelectorAll: what => root.querySelectorAll(what),
  addEventListener: (name, listener) => listeners.push(listener)};
const print = () => {
  // A pointer that passes over every chart.
  for (const svg of root.querySelectorAll('svg')) for (const x of [0, 300, 560]) svg.onpointermove?.({clientX: x});
  console.log(JSON.stringify({title: document.title, main: main.html}));
};
let asked = 0;
const context = vm.createContext({document, Node, console, location: {origin: 'https://proxy'}, performance: {now: () => 2000 * asked},
  fetch: async () => ({text: async () => answers.metrics[asked++], json: async () => answers.model}),
  setTimeout: look => asked < answers.metrics.length ? look() : print()});
for (const [, script] of text.matchAll(/<script>(.*?)<\/script>/gs)) vm.runInContext(script, context);
for (const listener of listeners) listener();
if (answers.metrics.length === 0) print();
