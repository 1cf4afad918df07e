// Reads lines such as {"sdk": "stripe", …, "calls": [{"params": {…}, "options": {…}}]} from its standard input. Makes the
// calls of a line at once, by the official SDK with its defaults, and prints what each came to, in their order.

const sdks = {
  stripe: ({ key, host, port }) => {
    const Stripe = require('stripe')
    const stripe = new Stripe(key, { host, port, protocol: 'http' })
    return async ({ params, options }) => {
      try {
        const refund = await stripe.refunds.create(params, options)
        return { made: { ...refund, answered: refund.lastResponse.statusCode } }
      } catch (e) {
        const action = e.headers?.['doubtless-action-id']
        return { text: e.message, status: e.statusCode, error: e.type, code: e.code, action_id: action }
      }
    }
  },
  resend: ({ key, base }) => {
    const { Resend } = require('resend')
    const resend = base === undefined ? new Resend(key) : new Resend(key, { baseUrl: base })
    return async ({ params, options }) => {
      const { data, error, headers } = await resend.emails.send(params, options)
      const action = headers?.['doubtless-action-id']
      return error ? { text: error.message, status: error.statusCode, code: error.name, action_id: action } : { made: data }
    }
  }
}

// stripe-node leaves the body of an answer that it retries unread: that connection would hold the process at its end.
const work = async line => {
  const told = JSON.parse(line)
  console.log(JSON.stringify(await Promise.all(told.calls.map(sdks[told.sdk](told)))))
}
require('readline').createInterface({ input: process.stdin }).on('line', work).on('close', () => process.exit())
