/**
 * Holds answers against the OpenAPI document: the status, the headers and the body of each must be written there, and
 * nothing may come that is not. Any test may use it on any answer of the facade.
 */
import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js';
import addFormats from 'ajv-formats';
import { expect } from 'vitest';
import type { oas31 } from 'zod-openapi';
import { openApiDocument } from '../../src/facade/openapi.ts';

/** What a client of HTTP has in its hands; supertest's answers are of this form. */
export interface AnswerOverHttp {
  status: number;
  headers: Record<string, unknown>;
  text?: string | undefined;
}

/** Headers of our own: one that comes must be documented. All others (security, transport) are not of the API. */
const OWN_HEADERS = [
  'Allow',
  'ETag',
  'Idempotency-Key',
  'Idempotent-Replayed',
  'Location',
  'Preference-Applied',
  'Retry-After',
  'WWW-Authenticate',
  'X-Request-Id',
];

const METHODS = ['get', 'post', 'put', 'patch', 'delete', 'options', 'trace'] as const;

/** The answer to this method and path is one that the document tells of, whole. */
export function expectDocumented(method: string, path: string, answer: AnswerOverHttp): void {
  const told = `${method.toUpperCase()} ${path}: ${answer.status} ${answer.text?.slice(0, 300) ?? ''}`;
  expect({ told, undocumented: undocumented(method, path, answer) }).toEqual({ told, undocumented: [] });
}

/** What of an answer the document does not tell, in words. */
export function undocumented(anyMethod: string, path: string, answer: AnswerOverHttp): string[] {
  const method = anyMethod.toLowerCase();
  const document = openApiDocument();
  const template = templateOf(document, path);
  const item = document.paths?.[template ?? ''];
  if (template === undefined || item === undefined) return ['the path is not documented'];
  const taken = METHODS.filter((each) => item[each] !== undefined);
  const asked = method === 'head' ? 'get' : method;
  const own = taken.find((each) => each === asked);
  // Another method is answered alike by every operation of the path: with 405 alone.
  if (own === undefined && answer.status !== 405) return [`${method} is not documented`];
  const operation = own ?? taken[0];
  const response = (item[operation ?? 'get']?.responses?.[answer.status] ?? null) as oas31.ResponseObject | null;
  if (operation === undefined || response === null) return [`the status ${answer.status} is not documented`];
  const faults = headerFaults(response, answer);
  if (answer.status === 405) faults.push(...allowFaults(taken, answer));
  const isBodiless = method === 'head' || response.content === undefined;
  if (isBodiless && (answer.text ?? '') !== '') faults.push('a body that is not documented');
  if (response.content === undefined) return faults;
  const mediaType = String(answer.headers['content-type']).split(';')[0] ?? '';
  const content = response.content[mediaType];
  if (content === undefined) return [...faults, `the type ${mediaType} is not documented`];
  if (isBodiless || content.schema === undefined) return faults;
  const pointer = ['paths', template, operation, 'responses', String(answer.status), 'content', mediaType, 'schema'];
  const validate = validatorOf(pointer);
  if (validate(JSON.parse(answer.text ?? ''))) return faults;
  return [...faults, ...(validate.errors ?? []).map((each) => `${each.instancePath} ${each.message}`)];
}

/** The path of the document that a path is one of; those without parameters first. */
function templateOf(document: oas31.OpenAPIObject, path: string): string | undefined {
  const bare = path.split('?')[0] ?? '';
  const templates = Object.keys(document.paths ?? {}).toSorted((a, b) => a.split('{').length - b.split('{').length);
  return templates.find((template) => {
    const pattern = template.replaceAll('.', String.raw`\.`).replaceAll(/\{\w+\}/g, '[^/]+');
    return new RegExp(`^${pattern}$`).test(bare);
  });
}

function headerFaults(response: oas31.ResponseObject, { headers }: AnswerOverHttp): string[] {
  const documented = response.headers ?? {};
  const missing = Object.entries(documented)
    .filter(([name, each]) => 'required' in each && each.required && headers[name.toLowerCase()] === undefined)
    .map(([name]) => `without the header ${name}`);
  const unknown = OWN_HEADERS.filter((name) => headers[name.toLowerCase()] !== undefined && !(name in documented));
  return [...missing, ...unknown.map((name) => `the header ${name} is not documented`)];
}

function allowFaults(taken: readonly string[], { headers }: AnswerOverHttp): string[] {
  const expected = taken.flatMap((method) => (method === 'get' ? ['GET', 'HEAD'] : [method.toUpperCase()]));
  const allowed = String(headers['allow']).split(', ');
  return allowed.toSorted().join() === expected.toSorted().join() ? [] : [`Allow: ${allowed.join(', ')}`];
}

const DOCUMENT = 'openapi';
const validators = new Map<string, ValidateFunction>();
let ajv: Ajv2020 | undefined;

/** Strict: a schema with a keyword that means nothing is a fault of the document. */
function newAjv(): Ajv2020 {
  const made = new Ajv2020({ strict: true, allowUnionTypes: true, allErrors: true });
  addFormats.default(made);
  // OpenAPI's own words. Those of the document itself, in which ajv finds the schemas, and the discriminator, which is
  // a hint for readers: `oneOf` alone decides.
  made.addVocabulary(['openapi', 'info', 'tags', 'components', 'paths', 'discriminator']);
  return made;
}

function validatorOf(pointer: string[]): ValidateFunction {
  ajv ??= newAjv().addSchema(openApiDocument(), DOCUMENT);
  const id = pointer.map((part) => encodeURIComponent(part.replaceAll('~', '~0').replaceAll('/', '~1'))).join('/');
  const known = validators.get(id) ?? ajv.compile({ $ref: `${DOCUMENT}#/${id}` });
  validators.set(id, known);
  return known;
}

/**
 * What keeps a document from being OpenAPI 3.1, as far as this API uses it: stricter than the standard, as a key that
 * is not listed here is taken for a mistake. Schemas are held against JSON Schema 2020-12, and every reference followed.
 */
export function structuralFaults(document: oas31.OpenAPIObject): string[] {
  const validate = newAjv().compile(OPENAPI);
  if (!validate(document)) return (validate.errors ?? []).map((each) => `${each.instancePath} ${each.message}`);
  return [...schemaFaults(document), ...referenceFaults(document), ...operationFaults(document)];
}

function schemaFaults(document: oas31.OpenAPIObject): string[] {
  const strict = newAjv().addSchema(document, DOCUMENT);
  return schemaPointers(document).flatMap((pointer) => {
    try {
      strict.compile({ $ref: `${DOCUMENT}#${pointer}` });
      return [];
    } catch (error) {
      return [`${pointer}: ${String(error)}`];
    }
  });
}

/** Where schemas are: under the key `schema`, and in the components. */
function schemaPointers(document: oas31.OpenAPIObject): string[] {
  const found = Object.keys(document.components?.schemas ?? {}).map((name) => `/components/schemas/${name}`);
  const walk = (value: unknown, pointer: string): void => {
    if (typeof value !== 'object' || value === null) return;
    for (const [key, part] of Object.entries(value)) {
      const at = `${pointer}/${encodeURIComponent(key.replaceAll('~', '~0').replaceAll('/', '~1'))}`;
      if (key === 'schema') found.push(at);
      else walk(part, at);
    }
  };
  walk(document.paths, '/paths');
  return found;
}

function referenceFaults(document: oas31.OpenAPIObject): string[] {
  const text = JSON.stringify(document);
  const referred = [...text.matchAll(/"#\/components\/schemas\/([^"]+)"/g)].map(([, name]) => name ?? '');
  const known = Object.keys(document.components?.schemas ?? {});
  return [
    ...referred.filter((name) => !known.includes(name)).map((name) => `${name} does not exist`),
    ...known.filter((name) => !referred.includes(name)).map((name) => `${name} is not used`),
    ...[...text.matchAll(/"\$ref":"([^"]+)"/g)]
      .map(([, target]) => target ?? '')
      .filter((target) => !target.startsWith('#/components/schemas/'))
      .map((target) => `${target} leads elsewhere`),
  ];
}

function operationFaults(document: oas31.OpenAPIObject): string[] {
  const ids: string[] = [];
  const faults: string[] = [];
  for (const [path, item] of Object.entries(document.paths ?? {})) {
    const inPath = [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => name ?? '').toSorted();
    for (const operation of METHODS.flatMap((method) => item[method] ?? [])) {
      ids.push(operation.operationId ?? '');
      const parameters = (operation.parameters ?? []) as oas31.ParameterObject[];
      const told = parameters.filter((each) => each.in === 'path').map((each) => each.name);
      if (told.toSorted().join() !== inPath.join()) faults.push(`${path} does not tell of its parameters`);
      const names = parameters.map((each) => `${each.in} ${each.name}`);
      if (new Set(names).size < names.length) faults.push(`${path} tells of a parameter twice`);
    }
  }
  if (new Set(ids).size < ids.length) faults.push('an operationId comes twice');
  return faults;
}

const text = { type: 'string', minLength: 1 } as const;

function strictObject(properties: object, required: string[] = Object.keys(properties)): object {
  return { type: 'object', properties, required, additionalProperties: false };
}

function mapOf(keys: string, values: object): object {
  return { type: 'object', patternProperties: { [keys]: values }, additionalProperties: false };
}

const schema = { $ref: 'https://json-schema.org/draft/2020-12/schema' };
const content = mapOf('^[a-z]+/[a-z+.-]+$', strictObject({ schema }, []));
const headers = mapOf(
  '^[A-Z][A-Za-z-]+$',
  strictObject({ description: text, required: { type: 'boolean' }, schema }, ['description', 'schema']),
);
const parameter = {
  ...strictObject(
    {
      name: text,
      in: { enum: ['query', 'header', 'path'] },
      description: text,
      required: { type: 'boolean' },
      schema,
    },
    ['name', 'in', 'schema'],
  ),
  if: { type: 'object', properties: { in: { const: 'path' } } },
  // oxlint-disable-next-line unicorn/no-thenable -- a keyword of JSON Schema
  then: { type: 'object', properties: { required: { const: true } }, required: ['required'] },
};
const operation = strictObject(
  {
    operationId: { type: 'string', pattern: '^[a-z][A-Za-z]+$' },
    tags: { type: 'array', items: text, minItems: 1 },
    summary: text,
    description: text,
    security: { type: 'array', items: mapOf('^apiKey$', { type: 'array', items: text }) },
    parameters: { type: 'array', items: parameter },
    requestBody: strictObject({ required: { type: 'boolean' }, content }),
    responses: {
      ...mapOf('^[2345]\\d\\d$', strictObject({ description: text, headers, content }, ['description', 'headers'])),
      minProperties: 2,
    },
  },
  ['operationId', 'tags', 'summary', 'security', 'parameters', 'responses'],
);
const OPENAPI = strictObject({
  openapi: { const: '3.1.1' },
  info: strictObject({ title: text, version: text, description: text }),
  tags: { type: 'array', items: strictObject({ name: text }) },
  components: strictObject({
    securitySchemes: mapOf('^apiKey$', strictObject({ type: text, scheme: text, description: text })),
    schemas: mapOf('^[A-Za-z0-9._-]+$', schema),
  }),
  paths: mapOf('^/', { ...mapOf('^(get|post)$', operation), minProperties: 1 }),
});
