select 1
select 1 + 2 as three, 'a' || 'b' as ab, null is null
select 42 where 1 = 2
select null, 1 -- count
select * from people
select id, name from people limit 3 -- count
select p.* from people p where p.salary > 3000
select * exclude (boss) from people
select * replace (salary * 2 as salary) from people
from people
from people select name where id < 3
-- error: no column n; columns are id, name, dept, salary, hired, boss
select name as n from people where n like 'A%'
-- error: no column yearly; columns are id, name, dept, salary, hired, boss
select name, salary, salary * 12 as yearly, yearly / 52 as weekly from people
select distinct dept from people
-- error: DISTINCT ON is not supported
select distinct on (dept) dept, name from people order by dept, id -- ordered
select dept, count(*) from people group by dept having count(*) > 1
select dept, count(*) as n from people group by dept having n > 1
-- error: the aggregate string_agg is not supported
select dept, string_agg(name, ',' order by id) from people group by dept
select dept, list(id) from people where id < 3 group by dept -- count
select dept, sum(salary) filter (where hired > date '2015-01-01') from people group by dept
-- error: ROLLUP, CUBE and GROUPING SETS is not supported
select dept, name, count(*) from people group by rollup (dept, name)
select dept, count(*) from people group by all order by all -- ordered
select count(distinct dept), count(*), avg(salary), median(salary) from people
select name from people order by salary desc nulls last limit 5 offset 2 -- count
select name from people order by name desc -- ordered
select name from people where dept in (1, 2) and salary between 1000 and 4000
select name from people where dept in (select id from depts where name like '%s')
select name from people where dept in (select id from depts where name = 'Sales') or salary > 4000
select name from people where not (dept in (select id from depts where name = 'Sales') or salary > 4000)
select name from people where dept not in (select id from depts where name = 'Sales') or salary is null
select name from people p where exists (select 1 from depts d where d.id = p.dept and d.name = 'Sales') or p.boss is null
select name, dept in (select id from depts where name = 'Sales') as sales from people
-- error: the scalar subquery may have several rows; use an aggregate such as max, or LIMIT 1
select name, (select name from depts where id = 1) from people
-- error: a correlated scalar subquery that is not a plain aggregate is not supported
select name, (select d.name from depts d where d.id = p.dept) from people p
select name from people where salary = (select max(salary) from people)
-- error: > all (…); use IN, EXISTS, min or max is not supported
select name from people where salary > all (select salary from people where dept = 2 and salary is not null)
-- error: > any (…); use IN, EXISTS, min or max is not supported
select name from people where salary > any (select salary from people where dept = 2)
select p.name, b.name as boss from people p left join people b on p.boss = b.id
select p.name, d.name from people p join depts d on p.dept = d.id
select p.name, d.name from people p, depts d where p.dept = d.id
-- error: a natural join is not supported
select name, d.* from people p natural join (select id as dept, city from depts) d
select p.name, d.city from people p join (select id as dept, city from depts) d using (dept)
select count(*) from people cross join depts
select dept from people intersect select id from depts
select dept from people except select id from depts
select dept from people intersect all select dept from people where salary > 2000
select dept from people except all select dept from people where salary > 2000
select dept from people union select id from depts
select dept from people union all select id from depts
select id from depts except select dept from people where dept is not null union select 99
select p.name, city from people p full join depts d on p.dept = d.id
with d as (select dept, avg(salary) as a from people group by dept) select name from people join d using (dept) where salary > a
-- error: WITH RECURSIVE is not supported
with recursive n(i) as (select 1 union all select i + 1 from n where i < 5) select sum(i) from n
select case when salary > 3000 then 'high' when salary > 2000 then 'mid' else 'low' end as band, count(*) from people group by band
select case dept when 1 then 'one' when 2 then 'two' end from people
select if(salary > 3000, 'high', 'low') from people
select coalesce(salary, 0), nullif(dept, 1), ifnull(boss, -1) from people
-- error: an element of a list is not supported
select upper(name), lower(name), length(name), reverse(name), substr(name, 1, 2), name[1:2], left(name, 1), right(name, 1) from people
-- error: the function lpad is not supported
select lpad(name, 8, '.'), rpad(name, 8, '.'), repeat(name, 2), strpos(name, 'n'), ltrim('  x'), split_part('a-b-c', '-', 2) from people
-- error: the function concat_ws is not supported
select concat(name, '-', id), concat_ws('/', name, id), format('{} is {}', name, id) from people
-- error: SIMILAR TO is not supported
select regexp_matches(name, '^[A-C]'), regexp_replace(name, '[aeiou]', '*', 'g'), name similar to 'A.*' from people
-- error: the function trunc is not supported
select round(salary / 7, 2), floor(salary / 7), ceil(salary / 7), trunc(salary / 7), mod(id, 2), id % 2, power(id, 2), sqrt(id), abs(-id), sign(-id), ln(id), exp(0), pi() from people
select 7 / 2, 7 // 2, 7 % 2, -7 // 2, -7 % 3, 2 ** 3, 2 ^ 3
select 1.5 * 2, 0.1 + 0.2, 1e3
select extract(year from hired), year(hired), month(hired), dayofweek(hired), date_part('day', hired) from people
-- error: the function age is not supported
select hired + interval 1 month, hired - interval '3 days', hired + 7, date_diff('day', hired, date '2020-01-01'), age(date '2020-01-01', date '2019-01-01') from people
-- error: the function strftime is not supported
select strftime(hired, '%Y-%m'), make_date(2020, 1, id), last_day(hired), dayname(hired), monthname(hired) from people
select cast(salary as integer), salary::varchar, '12'::int, try_cast('x' as int), cast('2020-01-01' as date), '2020-01-01'::date from people
select name, row_number() over (order by id), rank() over (partition by dept order by salary), lag(name) over (order by id) from people
select name, sum(salary) over (partition by dept), avg(salary) over (order by id rows between 1 preceding and current row) from people
-- error: the window function ntile is not supported
select name, ntile(2) over (order by id), first_value(name) over (partition by dept order by id), percent_rank() over (order by id) from people
-- error: a window by name; write the window after OVER is not supported
select name, sum(salary) over w from people window w as (partition by dept)
select name from people qualify row_number() over (partition by dept order by salary desc nulls last, id) = 1
select dept, max(salary) - min(salary) from people group by 1 order by 2 desc, 1 -- ordered
-- error: ORDER BY within the aggregate first is not supported
select min(name), max(hired), first(name order by id), any_value(dept) is not null, bool_and(salary > 0), bool_or(salary > 5000) from people
-- error: the aggregate mode is not supported
select stddev(salary), var_pop(salary), stddev_pop(salary), corr(id, salary), quantile_cont(salary, 0.5), mode(dept) from people
-- error: the aggregate arg_max is not supported
select arg_max(name, salary), arg_min(name, salary), max_by(name, salary) from people
-- error: the aggregate product is not supported
select approx_count_distinct(dept) > 0, count_if(salary > 2000), sum(1), product(id) from people
select * from (values (1, 'a'), (2, 'b')) v(i, s)
values (1, 'a'), (2, 'b')
-- error: a table function is not supported
select * from range(5)
-- error: a list or struct is not supported
select unnest([1, 2, 3])
-- error: a list or struct is not supported
select [1, 2], {'a': 1}, map {'k': 1}
-- error: the operator ~ is not supported
select name from people where name ilike 'a%' and name not like '%z' and name ~ 'n'
-- error: a row of several values is not supported
select name from people where (dept, salary) in (select dept, max(salary) from people group by dept)
-- error: a row of several values is not supported
select name from people where (dept, id) = (1, 1)
select greatest(1, 2, null), least(3, 2)
-- error: no column current_date
select current_date is not null, today() is not null, now() is not null
select name from people where salary is not distinct from null
-- error: TABLESAMPLE is not supported
select name from people tablesample 50% -- count
-- error: LATERAL is not supported
select p.name from people p join lateral (select d.name from depts d where d.id = p.dept) x on true
select sum(s) from (select salary s from people union all select id from depts)
select count(*) from people where hired >= '2015-01-01'
-- error: a string with the prefix E is not supported
select "name", 'it''s', E'a\n' from "people"
select dept, count(*) from people group by dept order by count(*) desc, dept limit 1 -- ordered
select id from people where id in (3, 1) or id = 2 order by id desc -- ordered
select name || ' ' || coalesce(salary::varchar, '?') from people
select true and null, false or null, not null::boolean
