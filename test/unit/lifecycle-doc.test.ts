import { readFile } from 'node:fs/promises';
import { describe, expect, test } from 'vitest';
import { REFUSAL_CODES } from '../../src/contracts/commands.ts';
import { DELIVERY_STATES, TASK_STATUSES } from '../../src/contracts/task.ts';
import { TASK_EVENT_KINDS } from '../../workflows/task/lifecycle.ts';
import { lifecyclePages } from '../../scripts/lifecycle-doc.ts';

describe('docs/lifecycle.md', () => {
  test('is what the code does; else run `npx tsx scripts/lifecycle-doc.ts`', async () => {
    const { written, generated } = await lifecyclePages();
    expect(written).toBe(generated);
  });

  test('speaks of every status, state of delivery, event, refusal and invariant', async () => {
    const { written } = await lifecyclePages();
    const invariants = Array.from({ length: 10 }, (_, n) => `I${n + 1}`);
    const words = [...TASK_STATUSES, ...DELIVERY_STATES, ...TASK_EVENT_KINDS, ...REFUSAL_CODES, ...invariants];
    expect(words.filter((word) => !new RegExp(`(^|[^\\w-])${word}($|[^\\w-])`, 'm').test(written))).toEqual([]);
  });

  test('has the invariants in the words of the file that keeps them', async () => {
    const { written } = await lifecyclePages();
    const source = await readFile(new URL('../../workflows/task/lifecycle.ts', import.meta.url), 'utf8');
    const header = source.slice(0, source.indexOf('*/')).replaceAll(/\n \* {0,9}/g, ' ');
    const kept = [...header.matchAll(/\bI(\d+) +(.*?)(?=\s+I\d+ {1,3}[A-Z]|\s*$)/g)].map(([, n, text]) => [n, text]);
    const plain = written.replaceAll(/\s+/g, ' ');
    expect(kept).toHaveLength(10);
    expect(kept.filter(([, text]) => !plain.includes(String(text)))).toEqual([]);
  });
});
