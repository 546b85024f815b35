// A certified OpenID Connect provider (`oidc-provider`) with clients that get tokens by client credentials, and
// controls of its own below /control: new signing keys, and forgeries of a token. Apps register themselves, and
// the person `carol` signs in to them and agrees without being asked; a device code she accepts by a control.
import { createHmac, createPublicKey, generateKeyPairSync, randomUUID } from 'node:crypto';
import { createServer } from 'node:http';
import { Provider } from 'oidc-provider';

const port = Number(process.argv[1]);
const issuer = `http://127.0.0.1:${port}`;
const AUDIENCE = 'https://tools.example.com/mcp';
let keys;
let handler;
let provider;

// Each client has its id as a part of its secret; `brief` gets tokens of one second.
const clients = ['alice', 'bob', 'brief'].map((client_id) => ({
  client_id,
  client_secret: `${client_id}-secret`,
  grant_types: ['client_credentials'],
  redirect_uris: [],
  response_types: [],
}));

function begin() {
  const { privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 });
  keys = [{ ...privateKey.export({ format: 'jwk' }), kid: randomUUID(), use: 'sig', alg: 'RS256' }];
  provider = new Provider(issuer, {
    clients,
    jwks: { keys },
    scopes: ['tools:read', 'tools:write'],
    findAccount: (_, accountId) => ({ accountId, claims: () => ({ sub: accountId }) }),
    interactions: { url: (_, { uid }) => `/control/sign-in/${uid}` },
    issueRefreshToken: async () => true,
    loadExistingGrant,
    features: {
      registration: { enabled: true },
      devInteractions: { enabled: false },
      clientCredentials: { enabled: true },
      deviceFlow: { enabled: true },
      resourceIndicators: {
        enabled: true,
        getResourceServerInfo: (_, resource, client) => ({
          scope: 'tools:read tools:write',
          audience: resource,
          accessTokenTTL: client.clientId === 'brief' ? 1 : 600,
          accessTokenFormat: 'jwt',
          jwt: { sign: { alg: 'RS256' } },
        }),
      },
    },
  });
  handler = provider.callback();
}

// Agrees to whatever an app asks for.
async function loadExistingGrant({ oidc }) {
  const { clientId } = oidc.client;
  const grant = new provider.Grant({ clientId, accountId: oidc.session.accountId });
  grant.addOIDCScope('openid offline_access tools:read tools:write');
  if (oidc.params.resource) grant.addResourceScope(oidc.params.resource, 'tools:read tools:write');
  await grant.save();
  return grant;
}

// Does what the pages for device codes do once `carol` has entered a code, signed in and agreed.
async function acceptDevice(userCode) {
  const code = await provider.DeviceCode.findByUserCode(userCode.replace('-', ''));
  const { resource, scope } = code.params;
  const grant = new provider.Grant({ clientId: code.clientId, accountId: 'carol' });
  grant.addOIDCScope(scope);
  if (resource) grant.addResourceScope(resource, scope);
  const grantId = await grant.save();
  Object.assign(code, { accountId: 'carol', grantId, scope, resource, authTime: Math.floor(Date.now() / 1000) });
  await code.save();
  return 'accepted';
}

const encode = (value) => Buffer.from(JSON.stringify(value)).toString('base64url');

// The claims of `token` under another signature: none, or an HMAC with the public key as its secret.
function forge(kind, token) {
  const payload = token.split('.')[1];
  const [{ kid }] = keys;
  if (kind === 'none') return `${encode({ alg: 'none', typ: 'at+jwt', kid })}.${payload}.`;
  const head = `${encode({ alg: 'HS256', typ: 'at+jwt', kid })}.${payload}`;
  const pem = createPublicKey({ key: keys[0], format: 'jwk' }).export({ type: 'spki', format: 'pem' });
  return `${head}.${createHmac('sha256', pem).update(head).digest('base64url')}`;
}

begin();
createServer((request, response) => {
  const url = new URL(request.url, issuer);
  if (url.pathname === '/control/rotate') {
    begin();
    response.end('rotated');
  } else if (url.pathname.startsWith('/control/sign-in/')) {
    provider.interactionFinished(request, response, { login: { accountId: 'carol' }, consent: {} });
  } else if (url.pathname === '/control/device') {
    acceptDevice(url.searchParams.get('code')).then(
      (said) => response.end(said),
      (error) => response.writeHead(500).end(String(error)),
    );
  } else if (url.pathname === '/control/forge') {
    response.end(forge(url.searchParams.get('kind'), url.searchParams.get('token')));
  } else {
    handler(request, response);
  }
}).listen(port, '127.0.0.1', () => console.log(`identity provider at ${issuer} for ${AUDIENCE}`));
