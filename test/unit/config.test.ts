import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { inspect } from 'node:util';
import { beforeEach, describe, expect, onTestFinished, test } from 'vitest';
import { ConfigError, loadConfig, taskPolicyOf, type Config } from '../../src/config/index.ts';

const SECRET = `whsec_${Buffer.alloc(32, 7).toString('base64')}`;

let cwd: string;
beforeEach(() => {
  cwd = mkdtempSync(path.join(tmpdir(), 'holdfast-config-'));
  const dir = cwd;
  onTestFinished(() => rmSync(dir, { recursive: true, force: true }));
});

function writeConfig(content: unknown, name = 'holdfast.config.json'): void {
  writeFileSync(path.join(cwd, name), typeof content === 'string' ? content : JSON.stringify(content));
}

function load(env: NodeJS.ProcessEnv = {}): Config {
  return loadConfig({ env, cwd });
}

/** The problems of a configuration that must be refused, as `where: message`. */
function problems(env: NodeJS.ProcessEnv = {}): string[] {
  try {
    load(env);
  } catch (error) {
    if (error instanceof ConfigError) return error.problems.map((problem) => `${problem.where}: ${problem.message}`);
    throw error;
  }
  throw new Error('the configuration was accepted');
}

describe('without a file and without variables', () => {
  test('everything has its default', () => {
    expect(load()).toEqual({
      http: { host: '127.0.0.1', port: 8080 },
      keysFile: null,
      payloadKeys: [],
      publicUrl: 'http://127.0.0.1:8080',
      temporal: { embedded: true, port: 7233, uiPort: 8233, dataDir: path.join(cwd, '.holdfast') },
      taskQueue: 'holdfast',
      logLevel: 'info',
      routes: {},
      policy: {
        runTimeoutSeconds: 3600,
        runTimeoutSecondsMax: 604_800,
        redeliverAfterSeconds: 300,
        publish: {
          initialSeconds: 1,
          factor: 2,
          maximumSeconds: 300,
          attempts: 12,
          timeoutSeconds: 15,
          concurrency: 50,
          concurrencyPerCustomer: 10,
        },
      },
      file: null,
    });
  });

  test('the policy of Tasks follows', () => {
    expect(taskPolicyOf(load())).toEqual({
      deliveryTaskQueue: 'holdfast-delivery',
      publish: {
        initialSeconds: 1,
        factor: 2,
        maximumSeconds: 300,
        attempts: 12,
        timeoutSeconds: 15,
        totalSeconds: 86_400,
      },
      redelivery: { afterSeconds: 300, maximumSeconds: 3600, rounds: 11 },
      continueAsNewAfterSignals: 1000,
    });
  });

  test('it cannot be changed, however deep', () => {
    const config = load();
    expect(() => Object.assign(config.policy.publish, { attempts: 1 })).toThrow(TypeError);
    expect(() => Object.assign(config.routes, { default: {} })).toThrow(TypeError);
  });
});

describe('variables', () => {
  test('are read, and an empty one counts as not set', () => {
    const config = load({
      HOST: 'localhost',
      PORT: '9090',
      PUBLIC_URL: 'https://tasks.example.com/holdfast/',
      LOG_LEVEL: 'debug',
      HOLDFAST_DATA_DIR: 'data',
      HOLDFAST_TEMPORAL_PORT: '0',
      HOLDFAST_UI_PORT: '',
      HOLDFAST_TASK_QUEUE: 'mine',
    });
    expect(config).toMatchObject({
      http: { host: 'localhost', port: 9090 },
      publicUrl: 'https://tasks.example.com/holdfast',
      logLevel: 'debug',
      temporal: { embedded: true, port: 0, uiPort: 8233, dataDir: path.join(cwd, 'data') },
      taskQueue: 'mine',
    });
    expect(taskPolicyOf(config).deliveryTaskQueue).toBe('mine-delivery');
  });

  test('a port that is not known yet leaves the public URL open', () => {
    expect(load({ PORT: '0' }).publicUrl).toBeNull();
    expect(load({ PORT: '0', PUBLIC_URL: 'http://tasks.example.com' }).publicUrl).toBe('http://tasks.example.com');
  });

  test('an IPv6 host stands in brackets in the public URL', () => {
    expect(load({ HOST: '::1' }).publicUrl).toBe('http://[::1]:8080');
  });

  test.each(['TEMPORAL_ADDRESS', 'TEMPORAL_PROFILE', 'TEMPORAL_CONFIG_FILE'])('%s means no embedded server', (name) => {
    expect(load({ [name]: 'given', TEMPORAL_API_KEY: 'k', TEMPORAL_TLS: 'true' }).temporal).toEqual({
      embedded: false,
    });
  });

  test('a namespace alone changes nothing', () => {
    expect(load({ TEMPORAL_NAMESPACE: 'mine' }).temporal.embedded).toBe(true);
  });

  test.each(['TEMPORAL_API_KEY', 'TEMPORAL_TLS', 'TEMPORAL_TLS_CLIENT_CERT_PATH'])('%s needs a cluster', (name) => {
    expect(problems({ [name]: 'planted' })).toEqual([
      `${name}: has no effect on the embedded server: set TEMPORAL_ADDRESS too`,
    ]);
  });

  test.each([
    ['PORT', 'eighty', 'must be a port'],
    ['PORT', '65536', 'must be a port'],
    ['PORT', '-1', 'must be a port'],
    ['HOST', '0.0.0.0', 'must be a loopback address'],
    ['HOST', '::', 'must be a loopback address'],
    ['HOST', '127.0.0.1.example.com', 'must be a loopback address'],
    ['PUBLIC_URL', 'tasks.example.com', 'must be an http or https URL'],
    ['PUBLIC_URL', 'ftp://tasks.example.com', 'must be an http or https URL'],
    ['PUBLIC_URL', 'http://user:planted@tasks.example.com', 'must be an http or https URL'],
    ['PUBLIC_URL', 'http://tasks.example.com/?a=b', 'must be an http or https URL'],
    ['PUBLIC_URL', `http://tasks.example.com/${'a'.repeat(1024)}`, 'Too big'],
    ['LOG_LEVEL', 'loud', 'Invalid option'],
    ['HOLDFAST_TASK_QUEUE', 'two words', 'must be letters'],
    ['HOLDFAST_TASK_QUEUE', 'q'.repeat(120), 'Too big'],
    ['HOLDFAST_UI_PORT', '99999', 'must be a port'],
    ['HOLDFAST_DATADIR', 'data', 'unknown variable'],
    ['HOLDFAST_CONFIG', 'nowhere.json', 'the file cannot be read (ENOENT)'],
  ])('%s=%.40s is refused by name', (name, value, message) => {
    const found = problems({ [name]: value });
    expect(found).toHaveLength(1);
    expect(found[0]).toMatch(new RegExp(`^${name}: ${message.replaceAll(/[()]/g, '\\$&')}`));
    expect(found[0]).not.toContain('planted');
  });
});

describe('the file', () => {
  test('is read beside package.json, or where HOLDFAST_CONFIG says', () => {
    writeConfig({ policy: { runTimeoutSeconds: 60 } });
    writeConfig({ policy: { runTimeoutSeconds: 61 } }, 'other.json');
    expect(load()).toMatchObject({
      policy: { runTimeoutSeconds: 60, publish: { attempts: 12 } },
      file: path.join(cwd, 'holdfast.config.json'),
    });
    expect(load({ HOLDFAST_CONFIG: 'other.json' })).toMatchObject({ policy: { runTimeoutSeconds: 61 } });
  });

  test('its example is accepted', () => {
    const example = new URL('../../holdfast.config.example.json', import.meta.url).pathname;
    // Copied as it stands: nothing else has to be set.
    expect(load({ HOLDFAST_CONFIG: example }).routes['default']).toMatchObject({ url: 'http://127.0.0.1:9000/ready' });
  });

  test('fewer places in all mean fewer per customer', () => {
    writeConfig({ policy: { publish: { concurrency: 4 } } });
    expect(load().policy.publish.concurrencyPerCustomer).toBe(4);
  });

  test.each([
    [{ polciy: {} }, ['polciy: unknown key']],
    [{ admission: {}, evidence: {} }, ['admission: unknown key', 'evidence: unknown key']],
    [{ policy: { publish: { retries: 3 } } }, ['policy.publish.retries: unknown key']],
    [
      { routes: { default: { transport: 'webhook', url: 'http://a.example', secret: 'x' } } },
      ['routes.default.secret: unknown key'],
    ],
    [
      { policy: { runTimeoutSeconds: 604_801 } },
      ['policy.runTimeoutSeconds: must not be above runTimeoutSecondsMax; by default it is 3600'],
    ],
    [
      { policy: { publish: { initialSeconds: 301 } } },
      ['policy.publish.initialSeconds: must not be above maximumSeconds'],
    ],
    [
      { policy: { publish: { concurrency: 5, concurrencyPerCustomer: 6 } } },
      ['policy.publish.concurrencyPerCustomer: must not be above concurrency'],
    ],
    ['{"__proto__": {}}', ['holdfast.config.json: unknown key: __proto__']],
    ['{"routes": {"__proto__": {}}}', ['holdfast.config.json: unknown key: __proto__']],
    ['{\n  "a": "planted",}', ['holdfast.config.json: the file is not JSON: line 2, column 18']],
    ['{"a": planted}', ['holdfast.config.json: the file is not JSON']],
    ['', ['holdfast.config.json: the file is not JSON']],
  ])('%j is refused', (content, expected) => {
    writeConfig(content);
    expect(problems()).toEqual(expected);
  });

  test.each([
    ['runTimeoutSeconds', 0],
    ['runTimeoutSeconds', 1.5],
    ['runTimeoutSeconds', '60'],
    ['runTimeoutSecondsMax', 400 * 24 * 3600 + 1],
    ['redeliverAfterSeconds', 3601],
    ['publish.initialSeconds', 0],
    ['publish.factor', 0.5],
    ['publish.factor', null],
    ['publish.maximumSeconds', 3601],
    ['publish.attempts', 0],
    ['publish.attempts', 1001],
    ['publish.timeoutSeconds', 121],
    ['publish.concurrency', 0],
    ['publish.concurrencyPerCustomer', 1001],
  ])('policy.%s = %j is out of range', (name, value) => {
    const [outer, inner] = name.split('.');
    writeConfig({ policy: inner === undefined ? { [name]: value } : { [String(outer)]: { [inner]: value } } });
    expect(problems()).toEqual([expect.stringMatching(new RegExp(`^policy\\.${name.replace('.', '\\.')}: `))]);
  });

  test('a file that is too large is not read', () => {
    writeConfig(`{}${' '.repeat(1024 * 1024)}`);
    expect(problems()).toEqual(['holdfast.config.json: the file is larger than 1048576 bytes']);
  });

  test('all problems are told at once, each in the one message', () => {
    writeConfig({ policy: { publish: { attempts: 0 } }, evidence: {} });
    const env = { PORT: 'x', HOST: 'example.com' };
    expect(problems(env)).toHaveLength(4);
    expect(() => load(env)).toThrow(/PORT: .*\n.*policy\.publish\.attempts: .*\n.*evidence: unknown key\n.*HOST: /);
  });
});

test('with a file of API keys the API may be reached from elsewhere', () => {
  expect(load({ HOST: '0.0.0.0', HOLDFAST_KEYS_FILE: 'keys.json' })).toMatchObject({
    http: { host: '0.0.0.0' },
    keysFile: expect.stringMatching(/^\/.*\/keys\.json$/),
  });
  expect(() => load({ HOST: '0.0.0.0' })).toThrow(/HOST: must be a loopback address/);
});

describe('payload keys', () => {
  const key = Buffer.alloc(32, 7).toString('base64');

  test('the first encrypts, all are known, none is shown', () => {
    const { payloadKeys } = load({ HOLDFAST_PAYLOAD_KEYS: `new:${key},old:${key}` });
    expect(payloadKeys.map(({ id }) => id)).toEqual(['new', 'old']);
    expect(payloadKeys[0]?.key.reveal()).toBe(key);
    expect(inspect(payloadKeys, { depth: 9, showHidden: true })).not.toContain(key);
  });

  test.each(['x', `new:${key.slice(4)}`, `new:${key},new:${key}`, `:${key}`, `new:${key},`, `a b:${key}`])(
    '%s is refused without being shown',
    (value) => {
      expect(() => load({ HOLDFAST_PAYLOAD_KEYS: value })).toThrow(/HOLDFAST_PAYLOAD_KEYS/);
      expect(() => load({ HOLDFAST_PAYLOAD_KEYS: value })).not.toThrow(key.slice(4));
    },
  );
});

describe('routes', () => {
  const route = { transport: 'webhook', url: 'https://receiver.example.com/ready' };

  test('a queue may have any name, and has no route that it was not given', () => {
    writeConfig({ routes: { constructor: route } });
    const { routes } = load();
    expect(routes['constructor']).toEqual({ ...route, allowPrivate: false, secret: null });
    expect(routes['toString']).toBeUndefined();
  });

  test('the secret comes from the variable that the route names, whatever that is called', () => {
    writeConfig({ routes: { default: { ...route, secretEnv: 'HOLDFAST_READY_SECRET' } } });
    expect(load({ HOLDFAST_READY_SECRET: SECRET }).routes['default']?.secret?.reveal()).toBe(SECRET);
  });

  test('the secret shows itself nowhere', () => {
    writeConfig({ routes: { default: { ...route, secretEnv: 'READY_SECRET' } } });
    const config = load({ READY_SECRET: SECRET });
    expect(`${JSON.stringify(config)} ${inspect(config, { depth: 9, showHidden: true })}`).not.toContain(SECRET);
    expect(String(config.routes['default']?.secret)).toBe('[secret]');
  });

  test.each([
    [undefined, 'is not set'],
    ['', 'is not set'],
    ['planted', 'must be "whsec_" and the base64 of 24 to 64 bytes'],
    [`whsec_${Buffer.alloc(23).toString('base64')}`, 'must be "whsec_" and the base64 of 24 to 64 bytes'],
    [`whsec_${Buffer.alloc(65).toString('base64')}`, 'must be "whsec_" and the base64 of 24 to 64 bytes'],
    [`${SECRET}!`, 'must be "whsec_" and the base64 of 24 to 64 bytes'],
  ])('the secret %j is refused, and not shown', (value, message) => {
    writeConfig({ routes: { default: { ...route, secretEnv: 'READY_SECRET' } } });
    expect(problems({ READY_SECRET: value })).toEqual([
      `routes.default.secretEnv: the variable READY_SECRET ${message}`,
    ]);
  });

  test.each([
    ['http://127.0.0.1:9000/ready', 'is a private address'],
    ['http://[::1]/ready', 'is a private address'],
    ['http://2130706433/', 'is a private address'],
    ['http://169.254.169.254/', 'is an address where no receiver may be'],
    ['http://user:planted@receiver.example.com/', 'must be an http or https URL'],
    ['file:///etc/passwd', 'must be an http or https URL'],
    ['receiver.example.com', 'must be an http or https URL'],
  ])('the target %s is refused', (url, message) => {
    writeConfig({ routes: { default: { ...route, url } } });
    const found = problems();
    expect(found).toEqual([expect.stringMatching(`^routes\\.default\\.url: ${message}`)]);
    expect(found[0]).not.toContain('planted');
  });

  test('a private target is accepted where the route says so', () => {
    writeConfig({ routes: { default: { ...route, url: 'http://127.0.0.1:9000/ready', allowPrivate: true } } });
    expect(load().routes['default']).toMatchObject({ allowPrivate: true });
  });

  test.each([
    [{ 'two words': route }, 'routes.two words: must be a queue name'],
    [{ default: { ...route, transport: 'pigeon' } }, 'routes.default.transport: '],
    [{ default: { ...route, secretEnv: 'READY-SECRET' } }, 'routes.default.secretEnv: must be the name'],
  ])('%j is refused', (routes, message) => {
    writeConfig({ routes });
    expect(problems()).toEqual([expect.stringMatching(`^${message}`)]);
  });
});
