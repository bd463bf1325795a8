/** Keeps the results of a run, in the repository's format: one file for people and one for programs. */
import { mkdir, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { format, resolveConfig } from 'prettier';

const RESULTS_DIR = fileURLToPath(new URL('results', import.meta.url));

/** Returns the paths that were written. `name` has no extension. */
export async function save(name: string, { markdown, json }: { markdown: string; json: object }): Promise<string[]> {
  await mkdir(RESULTS_DIR, { recursive: true });
  const contents = { [`${name}.md`]: markdown, [`${name}.json`]: JSON.stringify(json) };
  return Promise.all(
    Object.entries(contents).map(async ([fileName, content]) => {
      const file = path.join(RESULTS_DIR, fileName);
      await writeFile(file, await format(content, { ...(await resolveConfig(file)), filepath: file }));
      return file;
    }),
  );
}
