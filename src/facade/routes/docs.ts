/**
 * The API's description: for machines, and as a page. The page is served whole from here, so that it works without a
 * network and tells nobody that it was read.
 */
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Router, type RequestHandler } from 'express';
import swaggerUiPath from 'swagger-ui-dist/absolute-path.js';
import { HoldfastError } from '../../contracts/errors.ts';
import { openApiDocument } from '../openapi.ts';
import { otherMethods } from '../problem.ts';

export function openApiRouter(): Router {
  const router = Router({ caseSensitive: true });
  router
    .route('/openapi.json')
    .get((_request, response) => {
      response.json(openApiDocument());
    })
    .all(otherMethods('GET', 'HEAD'));
  return router;
}

/**
 * For this page alone, and narrower than what holds elsewhere: nothing but what is served here. Styles may be inline,
 * as everywhere; scripts never. Nothing is upgraded to https: there is nothing from elsewhere, and a facade without TLS
 * would lose its own assets.
 */
const PAGE_POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "script-src-attr 'none'",
  "style-src 'self' 'unsafe-inline'",
  "img-src 'self' data:",
  "connect-src 'self'",
  "form-action 'self'",
  "base-uri 'none'",
  "frame-ancestors 'none'",
].join('; ');

const PAGE = `<!doctype html>
<html lang="en">
  <head>
    <meta charset="utf-8" />
    <title>Holdfast: HTTP API</title>
    <link rel="stylesheet" href="/docs/swagger-ui.css" />
    <link rel="icon" type="image/png" href="/docs/favicon-32x32.png" />
  </head>
  <body>
    <div id="swagger-ui"></div>
    <script src="/docs/swagger-ui-bundle.js"></script>
    <script src="/docs/initializer.js"></script>
  </body>
</html>
`;

/** Without the validator badge, which would ask a server on the internet, and without keeping API keys. */
const INITIALIZER = `SwaggerUIBundle({
  url: '/openapi.json',
  dom_id: '#swagger-ui',
  validatorUrl: null,
  persistAuthorization: false,
  queryConfigEnabled: false,
});
`;

/** All that the page loads: a name that is not here is no route, so that no path can lead anywhere. */
const ASSETS: ReadonlyMap<string, { type: string; content?: string }> = new Map([
  ['initializer.js', { type: 'text/javascript', content: INITIALIZER }],
  ['swagger-ui-bundle.js', { type: 'text/javascript' }],
  ['swagger-ui.css', { type: 'text/css' }],
  ['favicon-32x32.png', { type: 'image/png' }],
]);

/** To stand before what insists on JSON. */
export function docsRouter(): Router {
  const router = Router({ caseSensitive: true });
  const asPage: RequestHandler = (_request, response, next) => {
    response.setHeader('Cache-Control', 'no-store');
    response.setHeader('Content-Security-Policy', PAGE_POLICY);
    next();
  };
  router
    .route('/docs')
    .all(asPage)
    .get((_request, response) => {
      response.type('text/html').send(PAGE);
    })
    .all(otherMethods('GET', 'HEAD'));
  router
    .route('/docs/:asset')
    .all(asPage)
    .get(async (request, response) => {
      const name = request.params.asset;
      const asset = ASSETS.get(name);
      if (asset === undefined) throw new HoldfastError('route-not-found');
      response.type(asset.type).send(asset.content ?? (await readFile(join(swaggerUiPath(), name))));
    })
    .all(otherMethods('GET', 'HEAD'));
  return router;
}
