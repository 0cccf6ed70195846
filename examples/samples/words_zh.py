"""Traditional Chinese word lists and page templates; `pages.py` explains the notation.

Items of a list are separated by "|". All brands are made up; nouns and adjectives are
generic.
"""

RATIO = (21.2, 1.9, 1.0)  # characters: none : product : brand
LENGTH = 46.6  # characters of a page, on average
count = len
JOINER = ""
BARE = 0.5  # the share of products without a word before the noun
PRICES = (99, 2980)
CENTS = ""
SALE = "特價"
ITEMS = "杯 | 鍋 | 燈 | 枕 | 被 | 桌 | 架 | 椅 | 包 | 霜 | 衣 | 茶"

# What other makers have to do with a thing that plugs in or slides onto one.
FITS = """適用{other_brand}各型號 | 相容{other_brand}系列 | {other_brand}手機也能用
    | 非{other_brand}原廠 | 不適用{other_brand}{model}"""

CATEGORIES = {
    "drinkware": {
        "path": "居家餐廚>杯壺",
        "head": """保溫杯 | 隨行杯 | 水壺 | 馬克杯 | 茶壺 | 悶燒罐
            | 玻璃杯 | 咖啡杯 | 吸管杯 | 冷水瓶 | 保溫瓶 | 泡茶杯""",
        "kind": "雙層 | 輕量 | 大容量 | 兒童 | 手工",
        "material": "不鏽鋼 | 陶瓷 | 耐熱 | 琺瑯 | 純鈦",
        "spec": "500ml | 350ml | 750ml | 2入組 | 1公升 | 480cc",
        "feature": """冷熱飲都適合 | 單手就能拿 | 杯口圓潤好入口 | 寬口好清洗
            | 不含雙酚A | 可進洗碗機 | 冰塊也放得下""",
        "use": "辦公室 | 健身房 | 露營 | 上學",
    },
    "cookware": {
        "path": "居家餐廚>鍋具",
        "head": """平底鍋 | 湯鍋 | 炒鍋 | 牛奶鍋 | 壓力鍋 | 烤盤
            | 砂鍋 | 蒸籠 | 燉鍋 | 玉子燒鍋 | 火鍋 | 煎鍋""",
        "kind": "不沾 | 加深 | 家用 | 迷你 | 雙耳",
        "material": "鑄鐵 | 碳鋼 | 麥飯石 | 不鏽鋼 | 陶瓷",
        "spec": "28cm | 24cm | 3公升 | 含鍋蓋 | 20cm | 5人份",
        "feature": """受熱均勻不易焦 | 電磁爐可用 | 少油煙好清潔 | 把手防燙設計
            | 可直接進烤箱 | 輕巧好拿 | 導熱快省瓦斯""",
        "use": "小家庭 | 新手下廚 | 露營 | 租屋族",
    },
    "lighting": {
        "path": "家電>燈具",
        "head": """檯燈 | 立燈 | 小夜燈 | 吊燈 | 壁燈 | 露營燈
            | 吸頂燈 | 床頭燈 | 閱讀燈 | 燈串 | 感應燈 | 軌道燈""",
        "kind": "護眼 | 可調光 | 迷你 | 觸控 | 智慧",
        "material": "黃銅 | 原木 | 藤編 | 水泥 | 玻璃",
        "spec": "12W | 暖白光 | 附燈泡 | 三段色溫 | 800流明 | 兩入",
        "feature": """不閃頻不刺眼 | 記憶上次亮度 | 一碰就亮 | 安裝只要五分鐘
            | 柔和光線好入眠 | 省電又耐用 | 久用不發燙""",
        "use": "書房 | 臥室 | 宿舍 | 夜間哺乳",
    },
    "bedding": {
        "path": "居家生活>寢具",
        "head": """枕頭 | 涼被 | 床包 | 毛毯 | 床墊 | 抱枕
            | 被套 | 枕套 | 羽絨被 | 保潔墊 | 午睡枕 | 靠墊""",
        "kind": "涼感 | 透氣 | 加厚 | 抗菌 | 可水洗",
        "material": "天絲 | 純棉 | 乳膠 | 竹纖維 | 法蘭絨",
        "spec": "雙人加大 | 單人 | 2入 | 加大款 | 兩件組 | 兒童款",
        "feature": """越洗越柔軟 | 親膚不悶熱 | 可丟洗衣機 | 久用不變形
            | 敏感肌也能用 | 怕熱的人首選 | 台灣師傅縫製""",
        "use": "夏天 | 側睡族 | 嬰兒房 | 民宿",
    },
    "furniture": {
        "path": "居家生活>家具",
        "head": """書桌 | 鞋櫃 | 邊桌 | 斗櫃 | 置物架 | 餐椅
            | 茶几 | 書架 | 衣帽架 | 收納櫃 | 穿鞋椅 | 層架""",
        "kind": "折疊 | 組合 | 北歐風 | 可移動 | 窄版",
        "material": "實木 | 鐵藝 | 胡桃木 | 竹製 | 橡木",
        "spec": "寬60cm | 耐重120kg | 大款 | 高90cm | 2入 | 免組裝",
        "feature": """免工具好組裝 | 圓角不怕撞 | 小坪數適用 | 附防滑腳墊
            | 穩固不搖晃 | 低甲醛板材 | 濕布一擦就乾淨""",
        "use": "租屋族 | 玄關 | 小套房 | 工作室",
    },
    "audio": {
        "path": "3C>影音",
        "head": """耳機 | 喇叭 | 麥克風 | 音響 | 收音機 | 聲霸
            | 耳麥 | 黑膠唱機 | 錄音筆 | 擴音器 | 隨身聽 | 點歌機""",
        "kind": "藍牙 | 降噪 | 防水 | 無線 | 迷你",
        "material": "電競 | 復古 | 掌上型 | 專業 | 桌上型",
        "spec": "續航30小時 | 20W | IPX7 | Type-C | 附收納盒 | 雙單體",
        "feature": """開機秒連線 | 低音渾厚 | 人聲清晰 | 低延遲打遊戲
            | 一按就能用 | 快充一小時充飽 | 可同時連兩台手機""",
        "use": "通勤 | 運動 | 線上會議 | 追劇",
        "rival": FITS,
    },
    "charging": {
        "path": "3C>手機配件",
        "head": """行動電源 | 充電線 | 充電器 | 手機殼 | 手機支架 | 保護貼
            | 車充 | 轉接頭 | 充電座 | 自拍棒 | 延長線 | 手機吊繩""",
        "kind": "磁吸 | 快充 | 超薄 | 防摔 | 旅行",
        "material": "編織 | 矽膠 | 鋁合金 | 皮革 | 透明",
        "spec": "2入 | 65W | 3入 | 20W | 附收納袋 | 新版",
        "feature": """久用不發燙 | 可帶上飛機 | 質感升級 | 安裝超簡單
            | 不卡殼不翹邊 | 口袋也放得下 | 通過安規認證""",
        "use": "出國 | 開車族 | 辦公桌 | 追劇",
        "rival": FITS,
    },
    "bags": {
        "path": "流行>包款",
        "head": """後背包 | 托特包 | 側背包 | 皮夾 | 旅行包 | 腰包
            | 電腦包 | 水桶包 | 零錢包 | 旅行袋 | 手拿包 | 購物袋""",
        "kind": "防潑水 | 輕量 | 折疊 | 防盜 | 多夾層",
        "material": "帆布 | 牛皮 | 尼龍 | 丹寧 | 編織",
        "spec": "大款 | 小款 | 附背帶 | 單一尺寸 | 男女適用 | 8個口袋",
        "feature": """好收納不占空間 | 可掛行李箱拉桿 | 隱藏口袋放證件
            | 大開口好拿取 | 拉鍊滑順 | 越用越有味道 | 媽媽也說好用""",
        "use": "通勤 | 出國 | 上學 | 爬山",
    },
    "clothing": {
        "path": "流行>服飾",
        "head": """外套 | 帽T | 針織衫 | 襯衫 | 上衣 | 罩衫
            | 洋裝 | 背心 | 風衣 | 睡衣 | 大衣 | 連身裙""",
        "kind": "寬版 | 防曬 | 刷毛 | 修身 | 短版",
        "material": "純棉 | 羊毛 | 亞麻 | 燈芯絨 | 牛仔",
        "spec": "S到3XL | 男女同款 | F號 | M號 | 加大尺碼 | 四色",
        "feature": """不易起毛球 | 洗後不變形 | 透氣不悶熱 | 顯瘦不挑人
            | 內裡親膚柔軟 | 一年四季都能穿 | 版型超好看""",
        "use": "上班 | 早晚溫差 | 居家 | 約會",
    },
    "skincare": {
        "path": "美妝>臉部保養",
        "head": """面膜 | 乳液 | 洗面乳 | 護手霜 | 護唇膏 | 化妝水
            | 面霜 | 精華液 | 眼霜 | 卸妝油 | 沐浴乳 | 身體乳""",
        "kind": "保濕 | 舒緩 | 亮白 | 清爽 | 修護",
        "material": "玫瑰 | 蘆薈 | 燕麥 | 綠茶 | 蜂蜜",
        "spec": "50ml | 2入組 | 30ml | 旅行組 | 100g | 補充包",
        "feature": """清爽不黏膩 | 不含酒精香精 | 敏弱肌適用 | 溫和不刺激
            | 淡淡茶香 | 用後不緊繃 | 孕婦也能用""",
        "use": "換季 | 熬夜後 | 油性肌 | 旅行",
        "colour": "無香 | 淡香 | {plain}限定瓶 | 加大瓶 | 新包裝",
        "service": "效期兩年 | 七天鑑賞期 | 原廠公司貨 | 登記送點數 | 好評{money}則",
    },
    "pantry": {
        "path": "美食>零食飲品",
        "head": """咖啡 | 紅茶 | 麵條 | 拌醬 | 蛋捲 | 堅果
            | 餅乾 | 果醬 | 烏龍茶 | 肉乾 | 牛軋糖 | 米香""",
        "kind": "手工 | 無糖 | 綜合 | 古早味 | 低溫烘焙",
        "material": "黑糖 | 花生 | 芝麻 | 檸檬 | 蜂蜜",
        "spec": "250g | 10入 | 一公斤 | 3罐組 | 家庭號 | 600公克",
        "feature": """無添加防腐劑 | 開封即食 | 全素可食 | 甜而不膩
            | 產地直送 | 香氣濃郁 | 小農契作""",
        "use": "下午茶 | 團購 | 拜拜 | 宵夜",
        "colour": "原味 | 微甜 | {plain}禮盒 | 新包裝 | 綜合口味",
        "service": "保存期限{days}個月 | 可開統編 | 登記送點數 | 好評{money}則",
    },
    "outdoor": {
        "path": "運動>戶外露營",
        "head": """帳篷 | 睡袋 | 露營椅 | 野餐墊 | 蛋捲桌 | 行軍床
            | 折疊桌 | 天幕 | 冰桶 | 吊床 | 睡墊 | 遮陽帳""",
        "kind": "輕量 | 加大 | 防風 | 雙人 | 快收",
        "material": "鋁合金 | 碳纖維 | 牛津布 | 充氣 | 帆布",
        "spec": "4人 | 900g | 附收納袋 | 加厚版 | 1.8kg | 兩入",
        "feature": """三分鐘就搞定 | 抗紫外線 | 防水耐髒 | 收納只要一個水瓶大
            | 沙地也站得穩 | 速乾不發霉 | 一個人也能搬""",
        "use": "海邊 | 登山 | 音樂祭 | 親子出遊",
    },
    "pets": {
        "path": "寵物>用品",
        "head": """貓抓板 | 貓砂盆 | 狗床 | 貓窩 | 飲水機 | 寵物碗
            | 睡窩 | 貓跳台 | 外出籠 | 餵食器 | 狗屋 | 貓隧道""",
        "kind": "加大 | 靜音 | 可拆洗 | 耐抓 | 防滑",
        "material": "瓦楞紙 | 劍麻 | 絨毛 | 原木 | 藤編",
        "spec": "L號 | 15kg以下 | M號 | 附補充包 | 中型犬 | 兩入",
        "feature": """清潔超方便 | 膽小貓也敢用 | 老犬關節更輕鬆 | 不易掉屑
            | 耐抓又耐磨 | 獸醫也推薦 | 無異味""",
        "use": "多貓家庭 | 幼犬 | 小空間 | 老貓",
    },
    "stationery": {
        "path": "書店>文具",
        "head": """筆記本 | 筆袋 | 手帳 | 筆筒 | 資料夾 | 便條本
            | 書套 | 名片夾 | 證件套 | 相本 | 文件盒 | 桌曆""",
        "kind": "厚磅 | 空白 | 多層 | 客製 | 迷你",
        "material": "牛皮 | 壓克力 | 黃銅 | 軟木 | 帆布",
        "spec": "A5 | 2入 | 大款 | 附禮盒 | 3入 | B6",
        "feature": """桌面整齊好心情 | 好拿好收 | 邊角不易磨損 | 放包包剛剛好
            | 開學必備 | 可燙名字 | 送同事剛剛好""",
        "use": "寫日記 | 考生 | 開會 | 開學",
    },
}

# Ordinary words that are also brand names here: the neighbours decide which is meant.
COMMON_BRANDS = """晴天 | 雲朵 | 日常 | 森林 | 極光 | 原野 | 小島 | 月光
    | 初夏 | 海風 | 拾光 | 山城 | 暖陽 | 晨曦"""

BRAND_FORMS = (
    *("{han}",) * 5,
    *("{Latin}",) * 2,
    "{LATIN}",
    "{Latin} {han}",
    *("{nature}{matter}",) * 4,
    *("{nature}{matter}{house}",) * 3,
    "{matter}{house}",
)
BRAND_PARTS = {
    "nature": "山 禾 沐 森 晴 雲 青 樂 語 初 果 樸 芳 霧 拾 映 暮 澄 昀 漫",
    "matter": "木 日 嶼 光 禾 町 和 時 朵 味 谷 染 苗 織 秋 里 曦 穗 陌 嵐",
    "house": "坊 屋 堂 牌 家 號 舖 記 研 社",
}

SLOTS = {
    "adj": """新款 | 質感 | 簡約 | 韓系 | 日系 | 人氣 | 輕巧 | 高級 | 時尚 | 實用
        | 可愛 | 文青""",
    "plain": "森林綠 | 極光藍 | 月光白 | 海風藍 | 暖陽黃 | 原野綠 | 初夏限定色",
    "colour": """{plain} | 黑色 | 白色 | 莫蘭迪灰 | 霧面黑 | 奶茶色 | {plain} | 櫻花粉
        | 深藍 | 多色可選 | 四色任選""",
    "percent": "5 | 6 | 7 | 75 | 8 | 85 | 88 | 9 | 95",
    "days": "1 | 2 | 3 | 5 | 7 | 10 | 14",
    "years": "一 | 兩 | 三 | 五",
    "money": "49 | 99 | 199 | 299 | 399 | 499 | 799 | 999",
    "promo": """限時{percent}折 | 免運 | 買一送一 | 現貨 | 任2件{percent}折 | 週年慶
        | 限量 | 熱銷破萬 | 新品上市 | 超值組 | 滿{money}折50 | 福利品""",
    "ship": """24h到貨 | 滿{money}免運 | 台灣出貨 | 超商取貨付款 | {days}日內出貨
        | 快速出貨 | 離島不配送 | 附電子發票""",
    "service": """{years}年保固 | 七天鑑賞期 | 分{days}期0利率 | 原廠公司貨
        | 可刷卡 | 瑕疵可退換 | 登記送點數 | 好評{money}則""",
    "gift": """送禮自用兩相宜 | 交換禮物首選 | 母親節送禮 | {use}必備 | 適合{use}
        | 晴天雨天都好用 | 像雲朵一樣輕盈 | 日常好夥伴 | 森林系美學""",
    # The same kinds of words where they do not name what is sold.
    "rival": """與{other_brand}無關 | 不輸{other_brand} | 非{other_brand}商品
        | 比{other_brand}便宜""",
    "decoy": """{rival} | {rival} | 加購{other_item}只要{money}元 | 買就送{other_item}
        | 賣家：{other_brand}小舖 | {other_item}另售 | 勝過一般{head}
        | 可搭配{other_item} | 由{other_brand}物流配送 | {head}怎麼挑看這裡
        | 分類：{path} | 看了又看：{other_item}""",
    "notice": """{genre}全館{percent}折起 | 會員日登記抽{other_item}
        | 滿{money}送{money}購物金 | 每週五晚上八點限時搶購
        | 常見問題：{head}怎麼保養 | {genre}週年慶主打星 | 本賣場{ship}，{service}
        | 新會員首購折{money}元""",
}

NOTICES = ("{notice}", "{notice}，{promo}", "{notice}！{ship}")

PLATFORMS = {
    "daily": {
        "titles": (
            "【{brand}】{product}{spec}({colour})",
            "【{brand}】{adj}{product}-{colour}",
            "【{brand}】{model}{product}",
            "【{promo}】{product}{spec}({colour})",
            "{adj}{product}-{spec}/{colour}",
            "【{brand}】{genre}系列{percent}折起",
            "【{brand}】全品項任選，{promo}",
            *NOTICES,
        ),
        "layout": (
            "({promo})",
            "TITLE",
            "｜{feature}",
            "｜{feature}",
            "★{service}",
            "★{gift}",
            "｜{decoy}",
            "★{ship}",
            "｜{decoy}",
        ),
    },
    "bidding": {
        "titles": (
            "{adj}{product} {brand} {spec}",
            "{brand}{product} {feature} {colour}",
            "{adj}{product} {feature} {colour}",
            "{product} {spec} {rival}",
            "{brand}正品 {promo} 整單{percent}折",
            "{brand}開箱分享 {use}好物",
            "{notice}",
        ),
        "layout": (
            "🔥{promo}🔥 ",
            "✨{ship} ",
            "TITLE",
            " {feature}",
            " {use}",
            " {decoy}",
            " {gift}",
            " #{other_item}",
            " #{head}",
            " {promo}",
        ),
    },
    "fast24": {
        "titles": (
            "{brand} {product} {model} {spec}",
            "{brand} {model} {adj}{product}",
            "{product} {model} {spec}/{colour}",
            "{adj}{product} {spec}({service})",
            "{brand} {model} 專用耗材 {spec}",
            "{brand} 品牌旗艦館 {promo}",
            "{notice}",
        ),
        "layout": (
            "{path}>{other_item}>",
            "TITLE",
            "／{colour}",
            "／{feature}",
            "／{feature}",
            "／{service}",
            "／{ship}",
            "／定價{was}元特價{price}元",
            "／{decoy}",
            "／品牌:{brand}",
            "／商品:{product}",
        ),
    },
    "group": {
        "titles": (
            "這款{product}來自{brand}，{feature}。",
            "{brand}推出{adj}{product}，{use}也適合。",
            "團購這款{product}，{feature}。",
            "{use}想找{product}嗎？{feature}！",
            "跟著{brand}一起過{adj}生活，{promo}。",
            "{brand}回來了！{promo}，{ship}。",
            "{notice}。",
        ),
        "layout": (
            "【{promo}】",
            "TITLE",
            "{feature}，{gift}。",
            "{decoy}。",
            "{feature}，{service}。",
            "{ship}喔！",
            "{use}也很適合😊",
            "{colour}最搶手。",
            "{decoy}，{ship}。",
        ),
    },
    "import": {
        "titles": (
            "日本代購 {brand} {product}（{spec}）",
            "歐洲直送｜{brand}｜{product}｜{colour}",
            "預購 {adj}{product}（{spec}）{colour}",
            "海外直送｜{product}｜{feature}",
            "{brand} 代購連線，{days}天後收單",
            "連線代購｜{brand}｜{genre}｜{promo}",
            "{notice}",
        ),
        "layout": (
            "✈{ship}｜",
            "TITLE",
            "｜{promo}",
            "｜{feature}",
            "｜{feature}",
            "｜{gift}",
            "｜台灣售價{price}元",
            "｜不是{other_brand}，請勿搞混",
            "｜同店還有{other_item}",
            "｜{decoy}",
        ),
    },
}
