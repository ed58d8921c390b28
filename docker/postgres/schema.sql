-- The shop's tables, when the database is new. REPLICA IDENTITY FULL: old rows are logged whole.
CREATE TABLE customers (
  id integer PRIMARY KEY,
  name varchar(40),
  city varchar(20)
);
ALTER TABLE customers REPLICA IDENTITY FULL;

CREATE TABLE orders (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  customer integer NOT NULL REFERENCES customers,
  status varchar(10) NOT NULL,
  total numeric(8, 2) NOT NULL,
  changed_at timestamp NOT NULL DEFAULT now()
);
ALTER TABLE orders REPLICA IDENTITY FULL;

INSERT INTO customers
SELECT number, 'customer ' || number, (ARRAY['Kyōto', 'Zürich', 'Oslo', 'Lima'])[1 + number % 4]
FROM generate_series(1, 500) AS number;
