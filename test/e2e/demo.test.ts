import { spawn } from 'node:child_process';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';

interface DemoFile {
  tasks: { name: string; expect: { status: string } }[];
}

let dir: string;
let demo: DemoFile;
beforeAll(async () => {
  dir = await mkdtemp(path.join(tmpdir(), 'holdfast-demo-'));
  demo = JSON.parse(await readFile('examples/demo.json', 'utf8')) as DemoFile;
});
afterAll(() => rm(dir, { recursive: true, force: true, maxRetries: 3 }));

async function runDemo(...args: string[]): Promise<{ code: number | null; output: string }> {
  const child = spawn(process.execPath, ['--import', 'tsx', 'examples/demo.ts', ...args], {
    env: { ...process.env, HOLDFAST_DATA_DIR: dir },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let output = '';
  child.stdout.on('data', (chunk: Buffer) => (output += chunk.toString()));
  child.stderr.on('data', (chunk: Buffer) => (output += chunk.toString()));
  return new Promise((resolve) => {
    child.once('close', (code) => resolve({ code, output }));
  });
}

test('the demo shows every ending, with a link each, and exits 0', async () => {
  const { code, output } = await runDemo();
  expect(output).toContain('All Tasks ended as the file says.');
  expect(code).toBe(0);
  for (const { name } of demo.tasks) expect(output).toMatch(new RegExp(`/workflows/task%3Alocal%3A${name}-`));
  const endings = new Set(demo.tasks.map((task) => task.expect.status));
  expect(endings).toEqual(new Set(['succeeded', 'failed', 'canceled', 'timed_out']));
}, 240_000);

test('with one wrong expectation it exits 1 and says which', async () => {
  const [first] = demo.tasks;
  if (first === undefined) throw new Error('the demo has no Tasks');
  const file = path.join(dir, 'wrong.json');
  await writeFile(file, JSON.stringify({ tasks: [first, { ...first, name: 'wrong', expect: { status: 'failed' } }] }));
  const { code, output } = await runDemo(file);
  expect(code).toBe(1);
  expect(output).toMatch(/^wrong-\S+ +failed +succeeded .*WRONG/m);
  expect(output).toMatch(/^runtime-\S+ .*as expected/m);
}, 240_000);
