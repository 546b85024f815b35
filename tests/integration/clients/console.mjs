// Drives the web console in Chromium: `node - WHAT CHROMIUM CONSOLE-URL JSON`. Prints one JSON line.
//
// In every page, whatever WHAT is, a violation of the Content-Security-Policy, an error of the page or its
// script, a dialog and a request to another origin are failures.
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import axe from 'axe-core';
import { chromium } from 'playwright-core';

const [what, executablePath, root, json] = process.argv.slice(2);
const input = JSON.parse(json);
// Chromium refuses its own sandbox to root; the pages are those of this test.
const browser = await chromium.launch({ executablePath, args: ['--no-sandbox', '--disable-dev-shm-usage'] });
const failures = [];
const PHONE = { width: 360, height: 740 };
const DESKTOP = { width: 1280, height: 800 };

// Opens a page whose faults are recorded.
async function watched(options) {
  const context = await browser.newContext({ viewport: DESKTOP, ...options });
  // A page of 50 MB on a busy machine takes longer than 30 s.
  context.setDefaultTimeout(120000);
  const page = await context.newPage();
  const fail = (fault) => failures.push(`${page.url()}: ${fault}`);
  await page.exposeFunction('reportViolation', (text) => fail(`policy violated: ${text}`));
  await page.addInitScript(() => {
    document.addEventListener('securitypolicyviolation', (event) => {
      window.reportViolation(`${event.violatedDirective} ${event.blockedURI} ${event.sample}`);
    });
  });
  page.on('pageerror', (error) => fail(`error of the script: ${error.message}`));
  page.on('console', (message) => {
    // The form to sign in comes with status 401, which Chromium counts as an error of its own.
    const refusals = input.isBelow ? /status of 40[134]/ : /status of 40[13]/;
    const isExpected = what.startsWith('signIn') && refusals.test(message.text());
    if (message.type() === 'error' && !isExpected) fail(`error on the console: ${message.text()}`);
  });
  page.on('dialog', (dialog) => {
    fail(`dialog: ${dialog.message()}`);
    dialog.dismiss();
  });
  page.on('request', (request) => {
    const { protocol, origin } = new URL(request.url());
    const known = [root, input.provider].filter(Boolean).map((url) => new URL(url).origin);
    if (protocol !== 'data:' && !known.includes(origin)) fail(`request to ${request.url()}`);
    // A proxy serves other things beside the console.
    const isOwn = origin === new URL(root).origin;
    if (input.isBelow && isOwn && !request.url().startsWith(root)) fail(`request beside the console: ${request.url()}`);
  });
  return page;
}

// Does what leads to another page, and waits until that is loaded.
async function follow(page, act) {
  await Promise.all([page.waitForNavigation({ waitUntil: 'load', timeout: 120000 }), act()]);
}

async function open(page, path) {
  const answer = await page.goto(root + path, { waitUntil: 'load' });
  if (!answer.ok()) failures.push(`${path}: status ${answer.status()}`);
}

// Returns the findings of axe-core that are serious or critical.
async function accessibility(page) {
  await page.evaluate(axe.source);
  const { violations } = await page.evaluate(() => window.axe.run(document, { resultTypes: ['violations'] }));
  const serious = violations.filter(({ impact }) => impact === 'serious' || impact === 'critical');
  return serious.map(({ id, nodes }) => `${id}: ${nodes.slice(0, 3).map((node) => node.html.slice(0, 160)).join(' | ')}`);
}

// Opens each page in light, in dark and on a phone.
async function pages() {
  let seen = 0;
  if (input.pictures) await mkdir(input.pictures, { recursive: true });
  for (const [look, options] of [
    ['light', { colorScheme: 'light' }],
    ['dark', { colorScheme: 'dark' }],
    ['phone', { colorScheme: 'light', viewport: PHONE }],
  ]) {
    const page = await watched(options);
    for (const [name, path] of Object.entries(input.pages)) {
      await open(page, path);
      for (const finding of await accessibility(page)) failures.push(`${name}, ${look}: ${finding}`);
      const width = await page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth);
      if (width > 0) failures.push(`${name}, ${look}: ${width} pixels wider than the window`);
      if (input.pictures) await page.screenshot({ path: join(input.pictures, `${name}-${look}.png`) });
      seen += 1;
    }
    await page.context().close();
  }
  // Every page can be read without its script.
  const plain = await watched({ javaScriptEnabled: false });
  for (const path of Object.values(input.pages)) {
    await open(plain, path);
    if ((await plain.locator('h1').count()) !== 1) failures.push(`${path}: no heading without a script`);
  }
  return { seen };
}

// Follows links and presses buttons from the first page on, by the words on them; each is one click.
async function newcomer() {
  const found = {};
  for (const [question, steps] of Object.entries(input.questions)) {
    const page = await watched({});
    await open(page, '');
    let clicks = 0;
    for (const step of steps) {
      if (step.type) {
        await page.getByLabel(step.type, { exact: false }).first().fill(step.text);
        continue;
      }
      if (step.appears) {
        await page.getByRole('link', { name: step.appears }).first().waitFor();
        continue;
      }
      const target = step.button
        ? page.getByRole('button', { name: step.button })
        : step.row
          ? page.getByRole('row').filter({ hasText: step.row }).getByRole('link')
          : page.getByRole('link', { name: step.link });
      await follow(page, () => target.first().click());
      clicks += 1;
    }
    found[question] = { clicks, text: await page.locator('main').innerText() };
    await page.context().close();
  }
  return { found };
}

// Opens pages with texts of a hostile server, and sends forms whose answers are hostile.
async function hostile() {
  const page = await watched({});
  const sizes = {};
  // A field keeps what a person typed into it, whatever that is: `typed` are such fields.
  const look = async (name, typed = 'none') => {
    const seen = await page.evaluate((typed) => ({
      size: document.documentElement.outerHTML.length,
      active: document.querySelectorAll('main :is(script, svg:not(.chart, .bar, .spark), img, iframe, object, embed, style, base, meta)').length,
      links: [...document.querySelectorAll('[href], [src], [action]')]
        .map((node) => node.getAttribute('href') ?? node.getAttribute('src') ?? node.getAttribute('action'))
        .filter((address) => /^\s*(javascript|vbscript|data):/i.test(address) && address !== 'data:,'),
      handlers: [...document.querySelectorAll('*')].filter((node) =>
        node.getAttributeNames().some((attribute) => attribute.startsWith('on'))).length,
      hidden: [...document.querySelectorAll('body *')].some((node) => !node.matches(typed)
        && [...node.childNodes].some((child) => child.nodeType === Node.TEXT_NODE
          && /[\u061c\u200b\u200e\u200f\u202a-\u202e\u2066-\u2069]/.test(child.data))),
      owned: window.owned !== undefined,
    }), typed);
    sizes[name] = seen.size;
    if (seen.active) failures.push(`${name}: ${seen.active} elements of a server's text`);
    if (seen.links.length) failures.push(`${name}: links ${seen.links}`);
    if (seen.handlers) failures.push(`${name}: ${seen.handlers} handlers`);
    if (seen.hidden) failures.push(`${name}: characters that change the direction of text`);
    if (seen.owned) failures.push(`${name}: a script of a server ran`);
  };
  for (const [name, path] of Object.entries(input.pages)) {
    await open(page, path);
    await look(name);
  }
  for (const [name, { path, fields }] of Object.entries(input.forms)) {
    await open(page, path);
    for (const [label, value] of Object.entries(fields)) await page.getByLabel(label).first().fill(value);
    await follow(page, () => page.locator('main button').last().click());
    await look(name, 'main textarea');
  }
  return { sizes };
}

// A person signs in and out with a token that is typed once.
async function signIn() {
  const page = await watched({});
  const answer = await page.goto(root, { waitUntil: 'load' });
  const closed = answer.status();
  for (const finding of await accessibility(page)) failures.push(`sign-in: ${finding}`);
  await page.getByLabel('Token').fill(input.token);
  await follow(page, () => page.getByRole('button', { name: 'Sign in' }).click());
  const open = await page.locator('h1').innerText();
  const script = await page.evaluate(() => document.cookie);
  const cookies = await page.context().cookies();
  await follow(page, () => page.getByRole('button', { name: 'Sign out' }).click());
  const left = (await page.context().cookies()).length;
  return { closed, open, script, cookies, left };
}

// A person watches calls as they come, pauses, and goes on once the session has ended.
async function signInAndWatch() {
  const page = await watched({});
  await page.goto(root, { waitUntil: 'load' });
  await page.getByLabel('Token').fill(input.token);
  await follow(page, () => page.getByRole('button', { name: 'Sign in' }).click());
  await open(page, 'calls');
  const rows = () => page.locator('tbody tr').count();
  const state = page.locator('[data-live-state]');
  const before = await rows();
  await page.waitForFunction((least) => document.querySelectorAll('tbody tr').length > least, before);
  const live = await state.innerText();
  await page.getByRole('button', { name: 'Pause' }).press('Enter');
  const paused = await state.innerText();
  // An answer that was under way may still come. A page that goes on asks every two seconds.
  let still = false;
  for (let looks = 0; looks < 4 && !still; looks += 1) {
    const kept = await rows();
    await page.waitForTimeout(6000);
    still = (await rows()) === kept;
  }
  await page.context().clearCookies();
  await page.getByRole('button', { name: 'Go on' }).press('Enter');
  await page.getByText('Your session has ended').waitFor();
  const ended = await state.innerText();
  await page.reload({ waitUntil: 'load' });
  const asked = await page.locator('main').innerText();
  return { live, paused, still, ended, asked };
}

// A person signs in at the provider, which asks nothing, and looks for orders on the page of a server.
async function signInAtProvider() {
  const page = await watched({});
  await page.goto(root, { waitUntil: 'load' });
  await follow(page, () => page.getByRole('link', { name: 'Sign in at your provider' }).click());
  // The page after the sign-in goes on by itself.
  await page.waitForFunction(() => document.querySelector('h1')?.textContent !== 'Signed in');
  const heading = await page.locator('h1').innerText();
  const script = await page.evaluate(() => document.cookie);
  const cookies = (await page.context().cookies()).filter(({ path }) => path.startsWith('/console'));
  const answer = await page.goto(`${root}server?server=jira`, { waitUntil: 'load' });
  const orders = await page.locator('main form[method=post]').count();
  return { heading, script, cookies, status: answer.status(), orders };
}

// Below the path of a proxy, a person asks for a page, signs in at the provider, is led back to that page, gives an
// order, chooses tools, watches calls and signs out; a copy of the cookie opens nothing afterwards.
async function signInBelowPath() {
  const page = await watched({});
  const wanted = `${root}server?server=jira`;
  await page.goto(wanted, { waitUntil: 'load' });
  await page.getByRole('link', { name: 'Sign in at your provider' }).click();
  await page.waitForURL((url) => url.href === wanted, { waitUntil: 'load' });
  await page.getByRole('heading', { level: 1, name: 'Server jira' }).waitFor();
  const landed = page.url();
  const heading = await page.locator('h1').innerText();
  const script = await page.evaluate(() => document.cookie);
  const cookies = (await page.context().cookies()).filter(({ path }) => path.includes('/console'));
  await follow(page, () => page.getByRole('button', { name: 'List its tools again' }).click());
  const ordered = await page.locator('main').innerText();
  await follow(page, () => page.getByRole('link', { name: 'Tools', exact: true }).first().click());
  await page.getByLabel('Words').first().fill('create note');
  await page.getByText('tools fit').waitFor();
  const typed = await page.locator('main').innerText();
  const polled = page.waitForResponse((answer) => new URL(answer.url()).pathname.endsWith('/calls/rows'));
  await open(page, 'calls');
  const rows = (await polled).status();
  await page.goto(`${root}gone`, { waitUntil: 'load' });
  const refused = await page.locator('main').innerText();
  await open(page, '');
  await follow(page, () => page.getByRole('button', { name: 'Sign out' }).click());
  const after = await page.locator('main').innerText();
  await page.context().addCookies(cookies);
  await page.goto(root, { waitUntil: 'load' });
  const again = await page.locator('main').innerText();
  await page.context().close();
  const other = await watched({});
  await other.goto(`${root}oidc/start?next=${encodeURIComponent('//evil.example/')}`, { waitUntil: 'commit' });
  await other.waitForURL((url) => url.href === root, { waitUntil: 'load' });
  const elsewhere = other.url();
  return { landed, heading, script, cookies, ordered, typed, rows, refused, after, again, elsewhere };
}

// A person signs in at the provider, and ends the sign-ins of their clients on the page of their logins.
async function signInForLogins() {
  const page = await watched({});
  await page.goto(root, { waitUntil: 'load' });
  await follow(page, () => page.getByRole('link', { name: 'Sign in at your provider' }).click());
  await page.waitForFunction(() => document.querySelector('h1')?.textContent !== 'Signed in');
  await follow(page, () => page.getByRole('link', { name: 'My logins' }).click());
  const before = await page.locator('main').innerText();
  for (const finding of await accessibility(page)) failures.push(`logins: ${finding}`);
  await page.getByText('Sign in again').first().click();
  await follow(page, () => page.getByRole('button', { name: 'End my sign-ins' }).click());
  const after = await page.locator('main').innerText();
  return { before, after };
}

// A person calls a tool by keyboard alone, and answers the question of its server.
async function tryTool() {
  const page = await watched({});
  await open(page, input.path);
  for (const [label, value] of Object.entries(input.fields)) await page.getByLabel(label).first().fill(value);
  await follow(page, () => page.getByRole('button', { name: 'Call the tool' }).press('Enter'));
  const asked = await page.locator('main').innerText();
  for (const finding of await accessibility(page)) failures.push(`question: ${finding}`);
  for (const [label, value] of Object.entries(input.answer)) await page.getByLabel(label).first().fill(value);
  // The first button of the form answers, as a person expects it of the Enter key.
  await follow(page, () => page.getByLabel(Object.keys(input.answer)[0]).first().press('Enter'));
  const answered = await page.locator('main').innerText();
  for (const finding of await accessibility(page)) failures.push(`answer: ${finding}`);
  const size = (await page.content()).length;
  return { asked, answered, size };
}

const run = { pages, newcomer, hostile, signIn, signInAndWatch, signInAtProvider, signInBelowPath, signInForLogins, tryTool }[what];
try {
  const result = await run();
  console.log(JSON.stringify({ failures, ...result }));
} finally {
  await browser.close();
}
