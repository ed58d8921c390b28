-- One second of the shop: new orders, orders that are paid or sent, and orders that are cancelled.
WITH made AS (
  INSERT INTO orders (customer, status, total)
  SELECT 1 + floor(random() * 500), 'new', round((random() * 900)::numeric, 2)
  FROM generate_series(1, 20)
  RETURNING 1
), moved AS (
  UPDATE orders SET status = CASE status WHEN 'new' THEN 'paid' ELSE 'sent' END, changed_at = now()
  WHERE id IN (SELECT id FROM orders WHERE status <> 'sent' ORDER BY random() LIMIT 15)
  RETURNING 1
), cancelled AS (
  DELETE FROM orders WHERE id IN (SELECT max(id) FROM orders WHERE status = 'new')
  RETURNING 1
)
SELECT (SELECT count(*) FROM made), (SELECT count(*) FROM moved), (SELECT count(*) FROM cancelled)
\watch 1
