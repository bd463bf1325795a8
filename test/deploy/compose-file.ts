/** docker-compose.yml as the tests need it: parsed, with its variables filled in as the engine would do it. */
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { parse } from 'yaml';

export const ROOT = fileURLToPath(new URL('../../', import.meta.url));

export interface Mount {
  type: string;
  source: string;
  target: string;
  read_only?: boolean;
}

export interface Service {
  image: string;
  build?: string;
  command?: string[];
  environment?: Record<string, string>;
  ports?: string[];
  volumes?: (string | Mount)[];
  healthcheck?: { test?: string[]; disable?: boolean };
  depends_on?: Record<string, { condition: string }>;
  restart?: string;
  deploy?: { replicas?: number };
}

export function readText(...names: string[]): string {
  return readFileSync(path.join(ROOT, ...names), 'utf8');
}

/** The file with `${NAME:-default}` and `${NAME:?message}` replaced. Throws where a variable must be set and is not. */
export function readCompose(variables: Record<string, string>): { services: Record<string, Service> } {
  const text = readText('docker-compose.yml').replaceAll(
    /\$\{([A-Z_]+):([-?])([^}]*)\}/g,
    (_all, name: string, kind: string, rest: string) => {
      const value = variables[name] ?? '';
      if (value !== '') return value;
      if (kind === '?') throw new Error(`${name}: ${rest}`);
      return rest;
    },
  );
  return parse(text, { merge: true }) as { services: Record<string, Service> };
}

/** What a service mounts from the folder of the file; named volumes and temporary ones are left out. */
export function bindMountsOf({ volumes = [] }: Service): Mount[] {
  return volumes
    .map((volume): Mount => {
      if (typeof volume !== 'string') return volume;
      const [source = '', target = '', mode] = volume.split(':');
      return { type: source.startsWith('.') ? 'bind' : 'volume', source, target, read_only: mode === 'ro' };
    })
    .filter(({ type }) => type === 'bind');
}

/** The file or folder here that a path inside the service's container is; null where nothing is mounted there. */
export function hostPathOf(service: Service, inside: string): string | null {
  for (const { source, target } of bindMountsOf(service)) {
    if (inside === target || inside.startsWith(`${target}/`)) {
      return path.join(ROOT, source, inside.slice(target.length));
    }
  }
  return null;
}

export interface Dockerfile {
  /** The images and stages that stages begin from, in order. */
  from: string[];
  /** What is copied out of the build context. */
  sources: string[];
  command: string[];
  healthcheck: string[];
  instructions: Map<string, string>;
}

export function readDockerfile(): Dockerfile {
  const lines = readText('Dockerfile')
    .replaceAll(/\\\n\s*/g, '')
    .split('\n')
    .filter((line) => line !== '' && !line.startsWith('#'))
    .map((line) => /^([A-Z]+) (.*)$/.exec(line) ?? [line, '', ''])
    .map(([, instruction = '', rest = '']) => ({ instruction, rest }));
  const all = (name: string): string[] =>
    lines.filter(({ instruction }) => instruction === name).map(({ rest }) => rest);
  const json = (text: string): string[] => JSON.parse(text.slice(text.indexOf('['))) as string[];
  return {
    from: all('FROM'),
    sources: all('COPY')
      .filter((rest) => !rest.startsWith('--from='))
      .flatMap((rest) => rest.split(' ').slice(0, -1)),
    command: json(all('CMD').at(-1) ?? '[]'),
    healthcheck: json(all('HEALTHCHECK').at(-1) ?? '[]'),
    instructions: new Map(lines.map(({ instruction, rest }) => [instruction, rest])),
  };
}
