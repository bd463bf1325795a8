import path from 'node:path';
import type { TaskPolicy } from '../contracts/workflow.ts';
import {
  CLUSTER_VARIABLES,
  DELIVERY_SUFFIX,
  environmentSchema,
  isLoopback,
  OWN_VARIABLES,
  type LogLevel,
} from './environment.ts';
import { fileSchema, readConfigFile, REDELIVERY, type FileConfig } from './file.ts';
import { ConfigError, problemsOf, type ConfigProblem } from './problems.ts';
import { Secret } from './secret.ts';

/** Where the readiness of a queue goes. */
export interface RouteConfig {
  readonly transport: 'webhook';
  readonly url: string;
  readonly secret: Secret | null;
  readonly allowPrivate: boolean;
}

/** Everything that can be set, checked and complete; frozen through and through. docs/configuration.md explains it. */
export interface Config {
  readonly http: { readonly host: string; readonly port: number };
  /** The file of API keys; null: none, and whoever reaches the API is the customer `local`. */
  readonly keysFile: string | null;
  /** Keys of what Temporal stores: the first encrypts, all decrypt; none: it is stored as it is. */
  readonly payloadKeys: readonly { readonly id: string; readonly key: Secret }[];
  /** Without a slash at its end; null when it follows from a port that is not known yet (`PORT=0`). */
  readonly publicUrl: string | null;
  readonly temporal:
    | { readonly embedded: true; readonly port: number; readonly uiPort: number; readonly dataDir: string }
    | { readonly embedded: false };
  readonly taskQueue: string;
  readonly logLevel: LogLevel;
  /** Route by queue. Without a prototype: a queue may be called `constructor`. */
  readonly routes: Readonly<Record<string, RouteConfig>>;
  readonly policy: Readonly<Omit<FileConfig['policy'], 'publish'>> & {
    readonly publish: Readonly<FileConfig['policy']['publish']>;
  };
  /** The file that was read; null: there is none. */
  readonly file: string | null;
}

/** Standard Webhooks: a secret of 24 to 64 bytes. */
const SECRET_BYTES_MIN = 24;
const SECRET_BYTES_MAX = 64;

/**
 * Reads the environment and the configuration file (design: "Configuration"). Throws `ConfigError` with everything that
 * is wrong, by name and without values. An empty variable counts as not set.
 */
export function loadConfig({ env: given, cwd }: { env: NodeJS.ProcessEnv; cwd: string }): Config {
  const env = new Map(Object.entries(given).filter((entry): entry is [string, string] => (entry[1] ?? '') !== ''));
  const { file, content, problems: fileProblems } = readConfigFile(env.get('HOLDFAST_CONFIG'), cwd);
  const settings = fileSchema.safeParse(content);
  const environment = environmentSchema.safeParse(Object.fromEntries(env));

  const problems: ConfigProblem[] = environment.success ? [] : problemsOf(environment.error.issues);
  if (fileProblems.length > 0) problems.push(...fileProblems);
  else if (!settings.success) problems.push(...problemsOf(settings.error.issues));
  const routes: Record<string, RouteConfig> = Object.create(null);
  const secretNames = new Set<string>();
  for (const [queue, { secretEnv, ...route }] of Object.entries(settings.data?.routes ?? {})) {
    if (secretEnv === undefined) {
      routes[queue] = { ...route, secret: null };
      continue;
    }
    secretNames.add(secretEnv);
    const value = env.get(secretEnv);
    const problem = secretProblem(value);
    if (problem !== null) {
      problems.push({ where: `routes.${queue}.secretEnv`, message: `the variable ${secretEnv} ${problem}` });
    } else if (value !== undefined) routes[queue] = { ...route, secret: new Secret(value) };
  }
  // Of a file that is refused it is not known which variables it names for secrets: none is called unknown then.
  if (settings.success) problems.push(...unknownVariables(env, secretNames));
  problems.push(...idleVariables(env));
  if (!env.has('HOLDFAST_KEYS_FILE') && !isLoopback(env.get('HOST') ?? 'localhost')) {
    const message = 'must be a loopback address: without API keys (HOLDFAST_KEYS_FILE) nobody else may reach the API';
    problems.push({ where: 'HOST', message });
  }
  if (problems.length > 0 || !environment.success || !settings.success) throw new ConfigError(problems);

  const own = environment.data;
  return deepFrozen({
    http: { host: own.HOST, port: own.PORT },
    keysFile: own.HOLDFAST_KEYS_FILE === undefined ? null : path.resolve(cwd, own.HOLDFAST_KEYS_FILE),
    payloadKeys: own.HOLDFAST_PAYLOAD_KEYS.map(([id, key]) => ({ id, key: new Secret(key) })),
    publicUrl: own.PUBLIC_URL ?? defaultPublicUrl(own.HOST, own.PORT),
    temporal: isCluster(env)
      ? { embedded: false }
      : {
          embedded: true,
          port: own.HOLDFAST_TEMPORAL_PORT,
          uiPort: own.HOLDFAST_UI_PORT,
          dataDir: path.resolve(cwd, own.HOLDFAST_DATA_DIR),
        },
    taskQueue: own.HOLDFAST_TASK_QUEUE,
    logLevel: own.LOG_LEVEL,
    routes,
    policy: settings.data.policy,
    file,
  });
}

/** The policy that new Tasks get into their input. What is not a setting is a constant here. */
export function taskPolicyOf(config: Config): TaskPolicy {
  const { initialSeconds, factor, maximumSeconds, attempts, timeoutSeconds } = config.policy.publish;
  return {
    deliveryTaskQueue: `${config.taskQueue}${DELIVERY_SUFFIX}`,
    publish: { initialSeconds, factor, maximumSeconds, attempts, timeoutSeconds, totalSeconds: 86_400 },
    redelivery: { afterSeconds: config.policy.redeliverAfterSeconds, ...REDELIVERY },
    continueAsNewAfterSignals: 1000,
  };
}

function secretProblem(value: string | undefined): string | null {
  if (value === undefined) return 'is not set';
  const base64 = value.replace(/^whsec_/, '');
  const bytes = /^[A-Za-z0-9+/]+={0,2}$/.test(base64) && base64.length % 4 === 0 ? Buffer.from(base64, 'base64') : null;
  if (bytes !== null && bytes.length >= SECRET_BYTES_MIN && bytes.length <= SECRET_BYTES_MAX) return null;
  return `must be "whsec_" and the base64 of ${SECRET_BYTES_MIN} to ${SECRET_BYTES_MAX} bytes`;
}

/** A misspelt variable would otherwise be a default that nobody chose. */
function unknownVariables(env: ReadonlyMap<string, string>, secretNames: ReadonlySet<string>): ConfigProblem[] {
  return [...env.keys()]
    .filter((name) => name.startsWith('HOLDFAST_') && !OWN_VARIABLES.has(name) && !secretNames.has(name))
    .map((name) => ({ where: name, message: 'unknown variable' }));
}

/** Credentials without a cluster: whoever set them did not mean the embedded server. */
function idleVariables(env: ReadonlyMap<string, string>): ConfigProblem[] {
  if (isCluster(env)) return [];
  return [...env.keys()]
    .filter((name) => name === 'TEMPORAL_API_KEY' || name === 'TEMPORAL_TLS' || name.startsWith('TEMPORAL_TLS_'))
    .map((name) => ({ where: name, message: 'has no effect on the embedded server: set TEMPORAL_ADDRESS too' }));
}

function isCluster(env: ReadonlyMap<string, string>): boolean {
  return CLUSTER_VARIABLES.some((name) => env.has(name));
}

function defaultPublicUrl(host: string, port: number): string | null {
  if (port === 0) return null;
  return `http://${host.includes(':') ? `[${host}]` : host}:${port}`;
}

/** Freezes what it is given, all the way down. A secret is closed by itself. */
function deepFrozen<T extends object>(value: T): T {
  for (const part of Object.values(value)) if (typeof part === 'object' && part !== null) deepFrozen(part as object);
  return Object.freeze(value);
}
