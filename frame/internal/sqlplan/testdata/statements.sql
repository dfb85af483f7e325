-- Statements on random tables a (k, g, x, s), b (k, h, y, s) and c (h, z), one per line; s is text, others are bigint.
select * from a
select a.*, k as kk from a where x > 2 or s = 's1'
select a.k, b.k, b.y from a, b where a.k = b.k and x < y
select * from a join b using (k)
select * from a left join b on a.k = b.k and y > 2 and x > 1
select * from a right join b using (k)
select k, a.k, b.k, x, y from a full join b using (k)
select * from a full join b on a.k = b.k and x = y
select * from a cross join c
select * from a left join b on a.x < b.y
select * from a semi join b on a.k = b.k and a.x < b.y
select * from a anti join b using (k)
select * from (a join b on a.k = b.k) left join c on b.h = c.h where z is null
select a.k, z from a, b, c where a.k = b.k and b.h = c.h and (x = 1 or z = 2)
select a.k, z from a, b, c where (a.k = b.k and b.h = c.h and x = 1) or (a.k = b.k and b.h = c.h and z = 2)
select x.k, y.k from a x, a y where x.g = y.k and x.x > y.x
select g, count(*), count(x), sum(x), min(s), max(x), avg(x) from a group by g
select g + 1 as gg, sum(x) * 2 + 1 from a group by gg having count(*) > 1
select g, s, sum(x) from a group by 1, 2 having sum(x) > 3 and g is not null
select g, sum(x) as total from a group by all
select sum(x), count(distinct g) from a where k > 100
select count(*) filter (where x > 2), sum(x) filter (where g = 1), count_if(x = 1) from a
select g, var_pop(x), stddev_pop(x), var_samp(x), stddev(x), covar_pop(x, k), covar_samp(x, k) from a group by g
select median(x), quantile_cont(x, 0.25), bool_and(x > 0), bool_or(x > 5) from a
select corr(x, k) from a
select distinct g, s from a
select k from a union select k from b
select k, s from a union all select y, s from b where y = 1 union all select z, 'c' from c
select * from (select g, sum(x) as t from a group by g) q (u, v) where v > 5
with q as (select g, sum(x) as t from a group by g) select * from q where t = (select max(t) from q)
with q as (select * from a where x > 1), r (v) as (select k from q) select q.k, v from q, r where q.k = r.v
with q as (select k from a) select q.k, p.k from q, q p where q.k = p.k
select * from a where exists (select 1 from b where b.k = a.k)
select * from a where not exists (select 1 from b where b.k = a.k and b.y > a.x)
select * from a where exists (select 1 from b where b.y > a.x)
select * from a where exists (select 1 from b where y > 5) and x > 1
select * from a where not exists (select 1 from b where y > 50)
select * from a where k in (select k from b)
select * from a where k not in (select k from b)
select * from a where k not in (select k from b where k is not null)
select * from a where k not in (select k from b where y > 100)
select * from a where not k in (select k from b where b.y = a.x)
select * from a where k in (select k from b where b.y = a.x)
select * from a where k in (select h from b group by h having count(*) > 3)
select * from a where k + 1 in (select distinct h + 1 from b order by 1)
select * from a where x > (select avg(y) from b)
select * from a where x > (select avg(y) from b where b.k = a.k)
select * from a where (select count(*) from b where b.k = a.k) = 0
select k, (select count(*) from b where b.k = a.k), (select sum(y) + 1 from b where b.k = a.k) from a
select * from a where coalesce((select sum(y) from b where b.k = a.k and b.h = a.g), 7) = 7
select k, (select coalesce(sum(y), -1) from b where b.k = a.k) from a
select k, (select max(y) from b), (select y from b order by y desc, k limit 1) from a
select k, exists (select 1 from b where b.k = a.k) or x = 1 from a
select * from a where exists (select 1 from b where b.k = a.k) or x is null
select a.k, y from a, b where a.k = b.k and y = (select max(y) from b b2 where b2.k = a.k)
select g, sum(x) from a group by g having sum(x) > (select avg(y) from b)
select g, sum(x) from a group by g having sum(x) > (select sum(y) from b where b.k = a.g)
select g from a group by g having g in (select k from b where y > 3)
select g, (select count(*) from b where b.k = g) from a group by g
select k, x from a order by x desc nulls first, k, s, g limit 7 offset 2 -- ordered
select k as r from a order by -x, r, s, g limit 5 -- ordered
select g, count(*) as n from a group by g order by n desc, sum(x), g limit 3
select s, k, rank() over (partition by s order by k), row_number() over (order by k, g, x, s) from a
select s, sum(x) over (partition by s order by k, g, x rows between 2 preceding and current row) from a
select s, sum(sum(x)) over (order by s) from a group by s
select s, k from a qualify row_number() over (partition by s order by k, g, x) <= 2
select * from (select s, k, lag(k) over (partition by s order by k, g, x) as p from a) where p > 2
select case g when 1 then 'one' when 2 then 'two' else s end, sum(x) from a group by 1
select a.s, c.z from a, c where a.g = c.h and a.g between 1 and 3 and a.s not in ('s1', 's2')
select * from a, c where a.x = 1 and 1 = 0
select count(*) from a, b, c
select x is not distinct from g, x is distinct from k from a
(select k from a order by k limit 3) union all (select k from b order by k limit 2) order by k desc limit 4 -- ordered
select * from a where x = 1 and (g = 2 or (g = 2 and k = 1))
select k, x from a intersect select k, y from b
select g from a intersect select h from b intersect select h from c
select k from a except select k from b
select g from a intersect all select h from b
select g, s from a except all select h, s from b
select g from a except select h from b union all select z from c
select g from a union select h from b intersect select h from c
(select g from a except select h from b) intersect (select h from c union select 1)
select 1 + 1, 'x', null is null
select 1 where 1 = 2
select g, (select 7) from a
values (1, 'a'), (2, null), (null, 'c')
select v.i, a.x from a join (values (1, 'a'), (2, 'b')) v(i, s) on a.g = v.i
from a
from a select g, x where k > 1
select * exclude (x) from a
select * exclude x replace (k * 2 as k, 'y' as s) from a
select a.* exclude (k), b.y from a join b on a.k = b.k
select g, x, s from a order by all -- ordered
select g, x from a union all select h, y from b order by all desc -- ordered
select * from a where k in (select k from b) or x = 1
select * from a where k not in (select k from b where y > 2) or x is null
select * from a where not (k in (select h from b) or g = 1)
select k, k in (select h from c), k not in (select k from b), x in (select y from b where y > 100) from a
select * from a where case when k in (select k from b) then x else g end > 2
